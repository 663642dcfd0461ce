#include "pathways/controller/cluster/observation/trace_recording.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/trace/clock_offset.h"
#include "pathways/trace/machine_clock.h"
#include "pathways/trace/perfetto.h"

namespace pw::controller {

using ::pathways::v1::EndedRecording;
using ::pathways::v1::TraceReport;

namespace {

constexpr absl::Duration kGatherTimeout = absl::Seconds(10);
constexpr absl::Duration kProfileTimeout = absl::Seconds(50);  // hosts convert the events of their device runtimes
constexpr size_t kProfileEvents = 200000;                      // of each process
constexpr size_t kMostEvents = 1 << 18;                        // of each process, even if a client asks for more

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
    std::string name;   // in traces: "host 'b0' of island 'b'"
    std::string brief;  // in profiles: "b0", or "b-b0" if another host has that name
    trace::ClockOffset offset;
    bool answered = false;
    EndedRecording report;
  };
  std::map<HostId, Host> hosts;
  trace::Recording own;
  uint64_t id = 0;
  absl::Time begun;
  // Of a trace; of a profile, the session is set.
  ResultCallback<ClusterTrace> done;
  SessionId session;
  bool everything = true;
  bool stopping = false;
  ResultCallback<session::ClusterProfile> profiled;

  bool is_profile() const { return session != SessionId(); }
  Host& HostOf(HostId id, const resource::Topology& topology) {
    Host& host = hosts[id];
    if (const resource::Host* found = topology.FindHost(id); found != nullptr && host.name.empty()) {
      host.name = topology.Describe(*found);
      host.brief = found->name;
      for (const auto& [other, known] : hosts) {
        if (other != id && known.brief == host.brief)
          host.brief = absl::StrCat(topology.FindIsland(found->island)->name, "-", found->name);
      }
    }
    return host;
  }
};

TraceRecording::TraceRecording(Fabric* fabric, Housekeeping* housekeeping, const Environment& environment,
                               std::function<std::vector<HostId>()> present)
    : fabric_(fabric), housekeeping_(housekeeping), environment_(environment), present_(std::move(present)) {}

template <class Callback, class T>
void TraceRecording::Answer(Callback done, T value) {
  environment_.strand->Post([done = std::move(done), value = std::move(value)]() mutable { std::move(done)(std::move(value)); });
}

absl::Status TraceRecording::MakeWay(bool everything, SessionId session) {
  if (underway_ == nullptr) return absl::OkStatus();
  const bool lasts = environment_.clock->Now() - underway_->begun >= session::kUndisturbedProfile;
  const bool is_anothers = underway_->session != session && !underway_->stopping;
  if (!underway_->everything && (everything || (is_anothers && lasts))) DropProfile(underway_->session);
  if (underway_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("another trace or profile is being recorded: wait until it is done; a user's makes way after ",
                   absl::FormatDuration(session::kUndisturbedProfile)));
}

void TraceRecording::Start(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) {
  if (absl::Status busy = MakeWay(/*everything=*/true, SessionId()); !busy.ok())
    return Answer(std::move(done), absl::StatusOr<ClusterTrace>(std::move(busy)));
  auto underway = std::make_shared<Underway>();
  underway->done = std::move(done);
  Wanted wanted;
  wanted.set_max_events(static_cast<uint32_t>(std::min(max_events, kMostEvents)));
  Begin(std::move(wanted), underway, [this, alive = std::weak_ptr<bool>(alive_), duration](bool) {
    environment_.timers->After(duration, environment_.strand, [this, alive] {
      if (!alive.expired()) Gather(kGatherTimeout);
    });
  });
}

void TraceRecording::Begin(Wanted wanted, std::shared_ptr<Underway> underway, std::function<void(bool still)> begun) {
  kept_ = nullptr;  // the hosts drop it when they hear of the recording
  underway_ = underway;
  underway->id = fabric_->NextId();
  underway->begun = environment_.clock->Now();
  for (HostId host : present_()) underway->HostOf(host, fabric_->topology());
  const size_t max_events = wanted.max_events();
  wanted.set_id(underway->id);
  ::pathways::v1::HostConfig config = housekeeping_->config();
  config.clear_kept_profile();
  *config.mutable_recording() = std::move(wanted);
  // Each answer is also a reading of the host's clock.
  const auto still = [this, alive = std::weak_ptr<bool>(alive_), underway] { return !alive.expired() && underway_ == underway; };
  auto configured = [this, still, underway](HostId host, absl::Time after, absl::Time before,
                                            const ::pathways::v1::Configured& answer) {
    if (!still()) return;  // too late
    underway->HostOf(host, fabric_->topology()).offset.AddAnswer(after, absl::FromUnixNanos(answer.now_nanoseconds()), before);
  };
  // The controller's own recording begins last: so the hosts record every command that the controller records. A client may have stopped its
  // profile before that.
  auto told = [this, alive = std::weak_ptr<bool>(alive_), still, underway, max_events, begun = std::move(begun)] {
    if (alive.expired()) return;
    if (still() && !underway->stopping) fabric_->recorder().Start(max_events);
    begun(still());
  };
  housekeeping_->Configure(std::move(config), std::move(configured), std::move(told));
}

// The controller's own recording ends first. The order to end travels among the commands, so a host's events before it belong to commands
// that the controller has recorded.
void TraceRecording::Gather(absl::Duration timeout) {
  fabric_->gangs().RecordUnderway();
  underway_->own = fabric_->recorder().Stop();
  std::map<HostId, std::string> hosts;
  for (HostId host : present_()) hosts[host] = underway_->HostOf(host, fabric_->topology()).brief;
  const auto still = [this, alive = std::weak_ptr<bool>(alive_), underway = underway_] {
    return !alive.expired() && underway_ == underway;
  };
  auto ended = [this, still, underway = underway_](HostId host, absl::Time asked, EndedRecording report) {
    if (!still()) return;
    Underway::Host& entry = underway->HostOf(host, fabric_->topology());
    entry.offset.AddAnswer(asked, absl::FromUnixNanos(report.trace().now_nanoseconds()), environment_.clock->Now());
    entry.answered = true;
    entry.report = std::move(report);
  };
  auto finish = [this, still] {
    if (still()) Finish();
  };
  environment_.timers->After(timeout, environment_.strand, finish);
  housekeeping_->GatherTraces(hosts, std::move(ended), finish);
}

void TraceRecording::Finish() {
  const std::shared_ptr<Underway> underway = std::exchange(underway_, nullptr);
  std::shared_ptr<Kept> kept;
  session::ClusterProfile profile;
  if (underway->is_profile()) {
    kept = std::make_shared<Kept>(Kept{underway->session, underway->id, {}});
    for (const auto& [host, entry] : underway->hosts) {
      kept->hosts.push_back(host);
      profile.hosts.push_back({entry.brief, entry.report.profile_bytes(),
                               entry.answered ? entry.report.profile_missing() : "the host did not answer in time"});
    }
  }
  Release(kept);
  ClusterTrace result;
  std::vector<trace::Recording> recordings;
  recordings.push_back(std::move(underway->own));
  recordings.front().process = "controller";
  for (auto& [host, entry] : underway->hosts) {
    if (!entry.answered) {
      result.silent_hosts.push_back(entry.name);
      continue;
    }
    recordings.push_back(FromProto(host, entry.report.trace(), entry.name));
    const bool shared = !entry.report.trace().clock().empty() && entry.report.trace().clock() == trace::MachineClock();
    if (shared) continue;
    recordings.back().Shift(entry.offset.to_ours());
    recordings.back().clock_error = entry.offset.error();
  }
  if (underway->everything) {
    for (const trace::Recording& recording : recordings) {
      result.events += static_cast<int64_t>(recording.events.size());
      result.events_not_recorded += static_cast<int64_t>(recording.dropped);
    }
    std::optional<absl::Duration> to_wall;
    if (environment_.wall_clock) to_wall = environment_.wall_clock() - environment_.clock->Now();
    result.perfetto_json = trace::ToPerfettoJson(recordings, result.silent_hosts, to_wall);
  }
  if (!underway->is_profile()) return Answer(std::move(underway->done), absl::StatusOr<ClusterTrace>(std::move(result)));
  profile.trace = std::move(result);
  Answer(std::move(underway->profiled), absl::StatusOr<session::ClusterProfile>(std::move(profile)));
}

void TraceRecording::Release(std::shared_ptr<const Kept> kept) {
  ::pathways::v1::HostConfig config = housekeeping_->config();
  config.clear_recording();  // this discards recordings that were not collected
  config.set_kept_profile(kept == nullptr ? 0 : kept->recording);
  kept_ = std::move(kept);
  housekeeping_->Configure(std::move(config), nullptr);
}

// ---- profiles

void TraceRecording::StartProfile(SessionId session, const session::ProfileOptions& options, session::StatusCallback done) {
  if (absl::Status busy = MakeWay(options.everything, session); !busy.ok()) return Answer(std::move(done), std::move(busy));
  auto underway = std::make_shared<Underway>();
  underway->session = session;
  underway->everything = options.everything;
  Wanted wanted;
  wanted.set_max_events(kProfileEvents);
  auto& profile = *wanted.mutable_profile();
  profile.set_session(options.everything ? 0 : session.v);
  profile.set_runtime(options.everything);
  profile.set_merged(options.merged);
  profile.set_max_bytes(options.max_bytes);
  auto begun = std::make_shared<session::StatusCallback>(std::move(done));
  Begin(std::move(wanted), underway, [this, begun](bool still) {
    Answer(std::move(*begun), still ? absl::OkStatus() : absl::CancelledError("the profile was dropped"));
  });
  environment_.timers->After(session::kLongestProfile, environment_.strand,
                             [this, alive = std::weak_ptr<bool>(alive_), weak = std::weak_ptr<Underway>(underway)] {
                               if (alive.expired() || underway_ == nullptr || underway_ != weak.lock() || underway_->stopping)
                                 return;
                               DropProfile(underway_->session);
                             });
}

void TraceRecording::StopProfile(SessionId session, ResultCallback<session::ClusterProfile> done) {
  if (underway_ == nullptr || underway_->session != session || underway_->stopping) {
    return Answer(std::move(done),
                  absl::StatusOr<session::ClusterProfile>(absl::FailedPreconditionError(absl::StrCat(
                      "this session records no profile; one is given up after ", absl::FormatDuration(session::kLongestProfile),
                      ", and a user's also when an operator records, or after ",
                      absl::FormatDuration(session::kUndisturbedProfile), " when another user does"))));
  }
  underway_->stopping = true;
  underway_->profiled = std::move(done);
  Gather(kProfileTimeout);
}

void TraceRecording::ReadProfile(SessionId session, size_t host, uint64_t offset, ResultCallback<Bytes> done) {
  if (kept_ == nullptr || kept_->session != session || host >= kept_->hosts.size()) {
    return Answer(std::move(done), absl::StatusOr<Bytes>(absl::NotFoundError(
                                       "this session has no such profile: it has been dropped, or another recording has begun")));
  }
  ::pathways::v1::ProfilePart part;
  part.set_recording(kept_->recording);
  part.set_offset(offset);
  auto asked = std::make_shared<ResultCallback<Bytes>>(std::move(done));
  housekeeping_->ReadProfile(kept_->hosts[host], part, [this, asked](absl::StatusOr<::pathways::v1::ProfilePiece> piece) {
    if (!piece.ok()) return Answer(std::move(*asked), absl::StatusOr<Bytes>(piece.status()));
    Answer(std::move(*asked), absl::StatusOr<Bytes>(Bytes::FromString(std::move(*piece->mutable_bytes()))));
  });
}

void TraceRecording::DropProfile(SessionId session) {
  if (underway_ != nullptr && underway_->is_profile() && underway_->session == session) {
    const std::shared_ptr<Underway> dropped = std::exchange(underway_, nullptr);
    fabric_->recorder().Stop();
    Release(nullptr);
    if (dropped->stopping)
      Answer(std::move(dropped->profiled),
             absl::StatusOr<session::ClusterProfile>(absl::CancelledError("the profile was dropped")));
  } else if (kept_ != nullptr && kept_->session == session) {
    Release(nullptr);
  }
}

}  // namespace pw::controller
