#include "pathways/worker/execute/tracing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/trace/machine_clock.h"

namespace pw::worker {
namespace v1 = pathways::v1;

namespace {

// A report is one frame: a larger request is cut to this.
constexpr size_t kMostEvents = 1 << 18;

}  // namespace

void Tracing::Record(const v1::HostConfig::Recording& recording) {
  if (std::exchange(recording_, recording.id()) == recording.id()) return;
  if (recording.id() == 0) {
    recorder_->Stop();
    return;
  }
  recorder_->Start(std::min<size_t>(recording.max_events(), kMostEvents));
}

v1::TraceReport Tracing::End() {
  v1::TraceReport report;
  report.set_clock(trace::MachineClock());
  report.set_now_nanoseconds(absl::ToUnixNanos(recorder_->Now()));
  trace::Recording recording = recorder_->Stop();
  report.set_dropped(recording.dropped);
  for (std::string& track : recording.tracks) report.add_tracks(std::move(track));
  for (trace::Event& event : recording.events) {
    auto* out = report.add_events();
    out->set_kind(static_cast<int32_t>(event.kind));
    out->set_track(event.track);
    out->set_name(std::move(event.name));
    out->set_begin_nanoseconds(absl::ToUnixNanos(event.begin));
    out->set_duration_nanoseconds(absl::ToInt64Nanoseconds(event.duration));
    out->set_flow(event.flow);
    out->set_bytes(event.bytes);
    out->set_gang(event.gang);
    out->mutable_needs()->Assign(event.needs.begin(), event.needs.end());
    out->mutable_makes()->Assign(event.makes.begin(), event.makes.end());
  }
  return report;
}

void Tracing::Prepared(const v1::Command& command) {
  uint64_t op = 0;
  switch (command.kind_case()) {
    case v1::Command::kExecute:
      op = command.execute().op();
      break;
    case v1::Command::kPut:
      op = command.put().op();
      break;
    case v1::Command::kMove:
      op = command.move().op();
      break;
    case v1::Command::kAlias:
      op = command.alias().op();
      break;
    case v1::Command::kBitcast:
      op = command.bitcast().op();
      break;
    case v1::Command::kGrant:
      for (uint64_t gang : command.grant().gangs()) {
        recorder_->Instant(trace::Kind::kGrant, "grants", "grant", {.gang = gang});
      }
      return;
    default:
      return;  // completes silently, or is a question
  }
  const auto* kind = v1::Command::descriptor()->FindFieldByNumber(command.kind_case());
  recorder_->Instant(trace::Kind::kPrepare, "commands", kind->name(), {.flow = op});
}

std::string DeviceTrack(int device) { return absl::StrCat("device ", device); }

}  // namespace pw::worker
