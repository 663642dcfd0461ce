#include "pathways/controller/cluster/observation/trace_recording.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "pathways/trace/clock_offset.h"
#include "pathways/trace/machine_clock.h"
#include "pathways/trace/perfetto.h"

namespace pw::controller {

using ::pathways::v1::TraceReport;

namespace {

constexpr absl::Duration kGatherTimeout = absl::Seconds(10);
constexpr size_t kMostEvents = 1 << 18;  // of each process, even if a client asks for more

trace::Recording FromProto(HostId host, const TraceReport& report, std::string process) {
  trace::Recording recording;
  recording.process = std::move(process);
  recording.tracks.assign(report.tracks().begin(), report.tracks().end());
  recording.dropped = report.dropped();
  for (const TraceReport::Event& event : report.events()) {
    const bool sound = event.track() < recording.tracks.size() && event.kind() >= 0 &&
                       event.kind() <= static_cast<int>(trace::Kind::kMax) && event.duration_nanoseconds() >= 0;
    if (!sound) continue;
    recording.events.push_back({static_cast<trace::Kind>(event.kind()), event.track(), event.name(),
                                absl::FromUnixNanos(event.begin_nanoseconds()), absl::Nanoseconds(event.duration_nanoseconds()),
                                FlowOf(host, event.flow()), event.bytes(), event.gang(),
                                std::vector<uint64_t>(event.needs().begin(), event.needs().end()),
                                std::vector<uint64_t>(event.makes().begin(), event.makes().end())});
  }
  return recording;
}

}  // namespace

struct TraceRecording::Underway {
  struct Host {
    std::string name;
    trace::ClockOffset offset;
    bool answered = false;
    TraceReport report;
  };
  std::map<HostId, Host> hosts;
  trace::Recording own;
  ResultCallback<ClusterTrace> done;

  Host& HostOf(HostId id, const resource::Topology& topology) {
    Host& host = hosts[id];
    if (const resource::Host* found = topology.FindHost(id); found != nullptr && host.name.empty())
      host.name = topology.Describe(*found);
    return host;
  }
};

TraceRecording::TraceRecording(Fabric* fabric, Housekeeping* housekeeping, const Environment& environment,
                               std::function<std::vector<HostId>()> present)
    : fabric_(fabric), housekeeping_(housekeeping), environment_(environment), present_(std::move(present)) {}

void TraceRecording::Start(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) {
  if (underway_ != nullptr) {
    return environment_.strand->Post([done = std::move(done)]() mutable {
      std::move(done)(absl::FailedPreconditionError("another trace is being recorded: wait until it is done"));
    });
  }
  max_events = std::min(max_events, kMostEvents);
  underway_ = std::make_shared<Underway>();
  underway_->done = std::move(done);
  for (HostId host : present_()) underway_->HostOf(host, fabric_->topology());
  ::pathways::v1::HostConfig config = housekeeping_->config();
  config.mutable_recording()->set_id(fabric_->NextId());
  config.mutable_recording()->set_max_events(static_cast<uint32_t>(max_events));
  // Each answer is also a reading of the host's clock.
  auto begun = [this, alive = std::weak_ptr<bool>(alive_), underway = underway_](HostId host, absl::Time after, absl::Time before,
                                                                                 const ::pathways::v1::Configured& answer) {
    if (alive.expired() || underway_ != underway) return;  // too late
    underway->HostOf(host, fabric_->topology()).offset.AddAnswer(after, absl::FromUnixNanos(answer.now_nanoseconds()), before);
  };
  // The controller's own recording begins last: so the hosts record every command that the controller records.
  housekeeping_->Configure(std::move(config), std::move(begun),
                           [this, alive = std::weak_ptr<bool>(alive_), duration, max_events] {
                             if (alive.expired()) return;
                             fabric_->recorder().Start(max_events);
                             environment_.timers->After(duration, environment_.strand, [this, alive] {
                               if (!alive.expired()) Gather();
                             });
                           });
}

// The controller's own recording ends first. The order to end travels among the commands, so a host's events before it belong to commands
// that the controller has recorded.
void TraceRecording::Gather() {
  fabric_->gangs().RecordUnderway();
  underway_->own = fabric_->recorder().Stop();
  const std::vector<HostId> hosts = present_();
  for (HostId host : hosts) underway_->HostOf(host, fabric_->topology());
  const auto still = [this, alive = std::weak_ptr<bool>(alive_), underway = underway_] {
    return !alive.expired() && underway_ == underway;
  };
  auto ended = [this, still, underway = underway_](HostId host, absl::Time asked, TraceReport report) {
    if (!still()) return;
    Underway::Host& entry = underway->HostOf(host, fabric_->topology());
    entry.offset.AddAnswer(asked, absl::FromUnixNanos(report.now_nanoseconds()), environment_.clock->Now());
    entry.answered = true;
    entry.report = std::move(report);
  };
  auto finish = [this, still] {
    if (still()) Finish();
  };
  environment_.timers->After(kGatherTimeout, environment_.strand, finish);
  housekeeping_->GatherTraces(hosts, std::move(ended), finish);
}

void TraceRecording::Finish() {
  const std::shared_ptr<Underway> underway = std::exchange(underway_, nullptr);
  ::pathways::v1::HostConfig config = housekeeping_->config();
  config.clear_recording();  // this discards recordings that were not collected
  housekeeping_->Configure(std::move(config), nullptr);
  ClusterTrace result;
  std::vector<trace::Recording> recordings;
  recordings.push_back(std::move(underway->own));
  recordings.front().process = "controller";
  for (auto& [host, entry] : underway->hosts) {
    if (!entry.answered) {
      result.silent_hosts.push_back(entry.name);
      continue;
    }
    recordings.push_back(FromProto(host, entry.report, entry.name));
    const bool shared = !entry.report.clock().empty() && entry.report.clock() == trace::MachineClock();
    if (shared) continue;
    recordings.back().Shift(entry.offset.to_ours());
    recordings.back().clock_error = entry.offset.error();
  }
  for (const trace::Recording& recording : recordings) {
    result.events += static_cast<int64_t>(recording.events.size());
    result.events_not_recorded += static_cast<int64_t>(recording.dropped);
  }
  result.perfetto_json = trace::ToPerfettoJson(recordings, result.silent_hosts);
  environment_.strand->Post(
      [done = std::move(underway->done), result = std::move(result)]() mutable { std::move(done)(std::move(result)); });
}

}  // namespace pw::controller
