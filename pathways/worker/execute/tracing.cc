#include "pathways/worker/execute/tracing.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/trace/machine_clock.h"

namespace pw::worker {
namespace v1 = pathways::v1;

namespace {

// A report is one frame: a larger request is cut to this.
constexpr size_t kMostEvents = 1 << 18;
constexpr char kDeviceTrack[] = "device ";

}  // namespace

void Tracing::Record(const v1::HostConfig& config) {
  const v1::HostConfig::Recording& recording = config.recording();
  profiles_->Keep(recording.id() != 0 ? recording.id() : config.kept_profile());
  if (std::exchange(recording_, recording.id()) == recording.id()) return;
  if (recording.id() == 0) {
    recorder_->Stop();
    return;
  }
  of_one_session_ = recording.profile().session() != 0;
  recorder_->Start(std::min<size_t>(recording.max_events(), kMostEvents));
  if (recording.has_profile()) profiles_->Begin(recording);
}

void Tracing::End(const v1::EndRecording& how, Ended ended) {
  const trace::Recording recording = recorder_->Stop();
  auto report = std::make_shared<v1::EndedRecording>();
  v1::TraceReport& told = *report->mutable_trace();
  told.set_clock(trace::MachineClock());
  told.set_now_nanoseconds(absl::ToUnixNanos(recorder_->Now()));
  told.set_dropped(recording.dropped);
  if (!of_one_session_) Write(recording, &told);
  const auto finish = [report, ended = std::move(ended)](uint64_t profile_bytes, const std::string& missing) {
    report->set_profile_bytes(profile_bytes);
    report->set_profile_missing(missing);
    ended(*report);
  };
  if (!profiles_->recording()) return finish(0, "");
  profiles_->End(recording, how.host(), finish);
}

void Tracing::Write(const trace::Recording& recording, v1::TraceReport* report) {
  for (const std::string& track : recording.tracks) report->add_tracks(track);
  for (const trace::Event& event : recording.events) {
    auto* out = report->add_events();
    out->set_kind(static_cast<int32_t>(event.kind));
    out->set_track(event.track);
    out->set_name(event.name);
    out->set_begin_nanoseconds(absl::ToUnixNanos(event.begin));
    out->set_duration_nanoseconds(absl::ToInt64Nanoseconds(event.duration));
    out->set_flow(event.flow);
    out->set_bytes(event.bytes);
    out->set_gang(event.gang);
    out->mutable_needs()->Assign(event.needs.begin(), event.needs.end());
    out->mutable_makes()->Assign(event.makes.begin(), event.makes.end());
  }
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

std::string DeviceTrack(int device) { return absl::StrCat(kDeviceTrack, device); }

bool IsDeviceTrack(absl::string_view track) { return absl::StartsWith(track, kDeviceTrack); }

}  // namespace pw::worker
