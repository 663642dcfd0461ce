// One recording of the whole cluster: everybody begins, everybody ends, and what they saw is brought on the controller's clock.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/controller/cluster_impl.h"
#include "pathways/trace/clock_offset.h"
#include "pathways/trace/machine_clock.h"
#include "pathways/trace/perfetto.h"

namespace pw::controller {

using ::pathways::v1::Command;
using ::pathways::v1::TraceReport;

namespace {

constexpr absl::Duration kGatherTimeout = absl::Seconds(10);

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
  size_t max_events = 0;
  bool gathering = false;
  size_t missing = 0;
  ResultCallback<ClusterTrace> done;
};

void ClusterImpl::RecordTrace(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) {
  if (tracing_ != nullptr) {
    return strand_.Post([done = std::move(done)]() mutable {
      std::move(done)(absl::FailedPreconditionError("another trace is being recorded: wait until it is done"));
    });
  }
  tracing_ = std::make_shared<Tracing>();
  tracing_->done = std::move(done);
  tracing_->max_events = max_events;
  fabric_->recorder().Start(max_events);
  for (const auto& [host, link] : hosts_) TraceHost(host);
  environment_.timers->After(duration, &strand_, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->GatherTrace();
  });
}

// Also one that joins meanwhile, before it is told anything else.
void ClusterImpl::TraceHost(HostId host) {
  if (tracing_ == nullptr || tracing_->gathering) return;
  tracing_->hosts[host].name = fabric_->topology().Describe(*fabric_->topology().FindHost(host));
  AskForTrace(host, true, tracing_->max_events);
}

// Each answer is also a reading of the host's clock.
void ClusterImpl::AskForTrace(HostId host, bool on, size_t max_events) {
  Command command;
  auto& trace = *command.mutable_trace();
  trace.set_query(fabric_->NextId());
  trace.set_on(on);
  trace.set_max_events(static_cast<uint32_t>(max_events));
  auto heard = [this, tracing = tracing_, host, on, asked = environment_.clock->Now()](absl::StatusOr<TraceReport> report) {
    if (tracing_ != tracing) return;  // too late
    Tracing::Host& entry = tracing->hosts[host];
    if (report.ok()) entry.offset.AddAnswer(asked, absl::FromUnixNanos(report->now_nanoseconds()), environment_.clock->Now());
    if (on) return;
    entry.answered = report.ok();
    if (report.ok()) entry.report = *std::move(report);
    if (--tracing->missing == 0) FinishTrace();
  };
  fabric_->trace_reports().Add(trace.query(), host, SessionId(), std::move(heard));
  fabric_->outbox().Add(host, std::move(command));
}

// Our own recording ends first: whatever a host does before it hears of the end is in order with what we have written down, since
// the word goes the way of the commands.
void ClusterImpl::GatherTrace() {
  tracing_->gathering = true;
  fabric_->gangs().RecordUnderway();
  tracing_->own = fabric_->recorder().Stop();
  tracing_->missing = 1;  // this function
  for (auto& [host, entry] : tracing_->hosts) {
    if (!hosts_.contains(host)) continue;
    ++tracing_->missing;
    AskForTrace(host, false, 0);
  }
  environment_.timers->After(kGatherTimeout, &strand_, [weak = weak_from_this(), tracing = tracing_] {
    auto self = weak.lock();
    if (self != nullptr && self->tracing_ == tracing) self->FinishTrace();
  });
  if (--tracing_->missing == 0) FinishTrace();
}

void ClusterImpl::FinishTrace() {
  const std::shared_ptr<Tracing> tracing = std::exchange(tracing_, nullptr);
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
