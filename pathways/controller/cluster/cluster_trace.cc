// A recording of the whole cluster: all processes start and stop recording, and their events are converted to the controller's clock.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/trace/clock_offset.h"
#include "pathways/trace/machine_clock.h"
#include "pathways/trace/perfetto.h"

namespace pw::controller {

using ::pathways::v1::TraceReport;

namespace {

constexpr absl::Duration kGatherTimeout = absl::Seconds(10);
constexpr size_t kMostEvents = 1 << 18;  // of each process, even if a client asks for more

trace::Recording FromProto(const TraceReport& report, std::string process) {
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
                                event.flow(), event.bytes(), event.gang(),
                                std::vector<uint64_t>(event.needs().begin(), event.needs().end()),
                                std::vector<uint64_t>(event.makes().begin(), event.makes().end())});
  }
  return recording;
}

}  // namespace

struct ClusterImpl::Tracing {
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

void ClusterImpl::RecordTrace(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) {
  if (tracing_ != nullptr) {
    return strand_.Post([done = std::move(done)]() mutable {
      std::move(done)(absl::FailedPreconditionError("another trace is being recorded: wait until it is done"));
    });
  }
  max_events = std::min(max_events, kMostEvents);
  tracing_ = std::make_shared<Tracing>();
  tracing_->done = std::move(done);
  for (const auto& [host, link] : hosts_) tracing_->HostOf(host, fabric_->topology());
  ::pathways::v1::HostConfig config = housekeeping_->config();
  config.mutable_recording()->set_id(fabric_->NextId());
  config.mutable_recording()->set_max_events(static_cast<uint32_t>(max_events));
  // Each answer is also a reading of the host's clock.
  auto begun = [this, tracing = tracing_](HostId host, absl::Time after, absl::Time before,
                                          const ::pathways::v1::Configured& answer) {
    if (tracing_ != tracing) return;  // too late
    tracing->HostOf(host, fabric_->topology()).offset.AddAnswer(after, absl::FromUnixNanos(answer.now_nanoseconds()), before);
  };
  // The controller's own recording begins last: so the hosts record every command that the controller records.
  housekeeping_->Configure(std::move(config), std::move(begun), [weak = weak_from_this(), duration, max_events] {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->fabric_->recorder().Start(max_events);
    self->environment_.timers->After(duration, &self->strand_, [weak] {
      if (auto still = weak.lock()) still->GatherTrace();
    });
  });
}

// The controller's own recording ends first. The order to end travels among the commands, so a host's events before it belong to commands
// that the controller has recorded.
void ClusterImpl::GatherTrace() {
  fabric_->gangs().RecordUnderway();
  tracing_->own = fabric_->recorder().Stop();
  std::vector<HostId> hosts;
  for (const auto& [host, link] : hosts_) {
    hosts.push_back(host);
    tracing_->HostOf(host, fabric_->topology());
  }
  auto ended = [this, tracing = tracing_](HostId host, absl::Time asked, TraceReport report) {
    if (tracing_ != tracing) return;  // too late
    Tracing::Host& entry = tracing->HostOf(host, fabric_->topology());
    entry.offset.AddAnswer(asked, absl::FromUnixNanos(report.now_nanoseconds()), environment_.clock->Now());
    entry.answered = true;
    entry.report = std::move(report);
  };
  auto finish = [weak = weak_from_this(), tracing = tracing_] {
    auto self = weak.lock();
    if (self != nullptr && self->tracing_ == tracing) self->FinishTrace();
  };
  environment_.timers->After(kGatherTimeout, &strand_, finish);
  housekeeping_->GatherTraces(hosts, std::move(ended), finish);
}

void ClusterImpl::FinishTrace() {
  const std::shared_ptr<Tracing> tracing = std::exchange(tracing_, nullptr);
  ::pathways::v1::HostConfig config = housekeeping_->config();
  config.clear_recording();  // this discards recordings that were not collected
  housekeeping_->Configure(std::move(config), nullptr);
  ClusterTrace result;
  std::vector<trace::Recording> recordings;
  recordings.push_back(std::move(tracing->own));
  recordings.front().process = "controller";
  for (auto& [host, entry] : tracing->hosts) {
    if (!entry.answered) {
      result.silent_hosts.push_back(entry.name);
      continue;
    }
    recordings.push_back(FromProto(entry.report, entry.name));
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
  strand_.Post([done = std::move(tracing->done), result = std::move(result)]() mutable { std::move(done)(std::move(result)); });
}

}  // namespace pw::controller
