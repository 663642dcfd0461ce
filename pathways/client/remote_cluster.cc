#include "pathways/client/remote_cluster.h"

#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::Answer;
using ::pathways::v1::SessionRequest;
using session::ResultCallback;
using session::SliceState;

absl::Status NoSession(SessionId session) {
  return absl::NotFoundError(absl::StrCat("session ", session.v, " is not one of this front door, or has ended"));
}

AnswerCallback ReadingText(ResultCallback<std::string> done) {
  return Reading(std::move(done), [](const Answer&, const Bytes& payload) { return std::string(payload.view()); });
}

AnswerCallback ReadingSlice(ResultCallback<SliceState> done) {
  return Reading(std::move(done), [](const Answer& answer, const Bytes&) { return session::SliceStateFrom(answer.slice()); });
}

}  // namespace

RemoteCluster::RemoteCluster(Options options, const Link::Environment& environment)
    : options_(std::move(options)), environment_(environment) {}

// ---- sessions ----

Link::Options RemoteCluster::LinkOptions(std::string description) const {
  Link::Options link;
  link.controller = options_.controller;
  link.description = std::move(description);
  if (!options_.machine.empty()) absl::StrAppend(&link.description, " on ", options_.machine);
  link.patience = options_.patience;
  link.retry = options_.retry;
  link.say = options_.say;
  link.remedy = options_.remedy;
  link.token = options_.token;
  return link;
}

void RemoteCluster::Open(Link::Options options, ResultCallback<std::shared_ptr<RemoteSession>> done) {
  // The callback holds the session until it has run.
  auto kept = std::make_shared<std::shared_ptr<RemoteSession>>();
  *kept = RemoteSession::Open(std::move(options), environment_, [kept, done = std::move(done)](absl::Status status) mutable {
    auto session = std::exchange(*kept, nullptr);
    if (!status.ok()) return std::move(done)(status);
    std::move(done)(std::move(session));
  });
  std::erase_if(sessions_, [](const auto& known) { return known.expired(); });
  sessions_.push_back(*kept);
}

void RemoteCluster::EndSessions() {
  std::promise<void> ended;
  Post([this, &ended] {
    EndSessionsHere();
    Post([&ended] { ended.set_value(); });  // after the tasks that the sessions' ends have posted
  });
  ended.get_future().wait();
}

void RemoteCluster::EndSessionsHere() {
  for (const auto& known : std::exchange(sessions_, {})) {
    if (const auto session = known.lock()) session->End(absl::CancelledError("this process ends"));
  }
}

void RemoteCluster::OpenSession(session::NewSession wanted, ResultCallback<std::shared_ptr<session::Session>> done) {
  Link::Options link = LinkOptions(std::move(wanted.description));
  if (wanted.share.weight.has_value()) link.hello.set_weight(*wanted.share.weight);
  if (wanted.share.priority.has_value()) link.hello.set_priority(*wanted.share.priority);
  link.hello.set_ends_on_hang(wanted.ends_on_hang);
  Open(std::move(link), [this, done = std::move(done)](absl::StatusOr<std::shared_ptr<RemoteSession>> session) mutable {
    if (!session.ok()) {
      SayRefusal(session.status());
      return std::move(done)(session.status());
    }
    info_ = (*session)->welcome().cluster;
    std::move(done)(*std::move(session));
  });
}

void RemoteCluster::SayRefusal(const absl::Status& refusal) {
  const bool final = absl::IsUnauthenticated(refusal) || absl::IsPermissionDenied(refusal);
  if (!final || !options_.say_refusals || options_.say == nullptr) return;
  if (std::exchange(said_refusal_, std::string(refusal.message())) == refusal.message()) return;
  options_.say(absl::StrCat("the Pathways controller at ", options_.controller, " has refused this program: ", refusal.message(),
                            ". jax goes on trying until PATHWAYS_CONNECT_TIMEOUT has passed"));
}

std::shared_ptr<RemoteSession> RemoteCluster::Find(SessionId session) {
  for (const auto& known : sessions_) {
    if (auto found = known.lock(); found != nullptr && found->id() == session) return found;
  }
  return nullptr;
}

void RemoteCluster::SetHostCallHandler(SessionId session, std::shared_ptr<session::HostCallHandler> handler) {
  if (const auto found = Find(session)) found->SetHostCalls(std::move(handler));
}

std::shared_ptr<const session::SpareDevices> RemoteCluster::Spares(SessionId session) {
  const auto found = Find(session);
  return found == nullptr ? std::make_shared<const session::SpareDevices>() : found->welcome().spares;
}

void RemoteCluster::Leave(SessionId session, absl::AnyInvocable<void() &&> done) {
  if (const auto found = Find(session)) return found->Leave(std::move(done));
  std::move(done)();
}

// ---- requests of a session ----

void RemoteCluster::Ask(SessionId session, SessionRequest request, AnswerCallback done) {
  if (const auto found = Find(session)) {
    found->Ask(std::move(request), std::move(done));
    return;
  }
  Post([done = std::move(done), session]() mutable { std::move(done)(NoSession(session), Bytes()); });
}

void RemoteCluster::AddSlice(SessionId session, const resource::SliceRequest& slice, ResultCallback<SliceState> done) {
  SessionRequest request;
  session::ToProto(slice, request.mutable_add_slice());
  Ask(session, std::move(request), ReadingSlice(std::move(done)));
}

void RemoteCluster::AwaitSlice(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done) {
  SessionRequest request;
  request.mutable_await_slice()->set_slice(slice.v);
  request.mutable_await_slice()->set_seconds(absl::ToDoubleSeconds(limit));
  Ask(session, std::move(request), ReadingSlice(std::move(done)));
}

void RemoteCluster::ReleaseSlice(SessionId session, SliceId slice, session::StatusCallback done) {
  SessionRequest request;
  request.set_release_slice(slice.v);
  Ask(session, std::move(request), ReadingStatus(std::move(done)));
}

// ---- requests of an operator ----

void RemoteCluster::Ask(SessionRequest request, AnswerCallback done) {
  Link::Options link = LinkOptions("an operator's question");
  link.hello.set_observer(true);
  Open(std::move(link), [request = std::move(request), done = std::move(done)](auto session) mutable {
    if (!session.ok()) return std::move(done)(session.status(), Bytes());
    RemoteSession& asked = **session;
    asked.Ask(std::move(request), [keep = *std::move(session), done = std::move(done)](auto answer, Bytes payload) mutable {
      std::move(done)(std::move(answer), std::move(payload));
    });
  });
}

void RemoteCluster::ChangeShare(SessionId session, const gang::ShareChange& change, ResultCallback<gang::Share> done) {
  SessionRequest request;
  session::ToProto(change, request.mutable_change_share());
  request.mutable_change_share()->set_session(session.v);
  Ask(std::move(request), Reading(std::move(done), [](const Answer& answer, const Bytes&) {
        return gang::Share{.weight = answer.share().weight(), .priority = answer.share().priority()};
      }));
}

void RemoteCluster::SuspendClient(SessionId session, bool resume, ResultCallback<session::SuspendReport> done) {
  SessionRequest request;
  request.mutable_suspend()->set_session(session.v);
  request.mutable_suspend()->set_resume(resume);
  Ask(std::move(request), Reading(std::move(done), [](const Answer& answer, const Bytes&) {
        return session::SuspendReport{answer.suspend().arrays(), answer.suspend().bytes()};
      }));
}

void RemoteCluster::DrainHost(const std::string& host, bool undo, ResultCallback<session::DrainReport> done) {
  SessionRequest request;
  request.mutable_drain_host()->set_host(host);
  request.mutable_drain_host()->set_undo(undo);
  Ask(std::move(request),
      Reading(std::move(done), [](const Answer& answer, const Bytes&) { return session::DrainReportFrom(answer.drain()); }));
}

void RemoteCluster::GetStatus(ResultCallback<std::string> done) {
  SessionRequest request;
  request.set_status(true);
  Ask(std::move(request), ReadingText(std::move(done)));
}

void RemoteCluster::AskTokens(const ::pathways::v1::TokenQuestion& question, ResultCallback<std::string> done) {
  SessionRequest request;
  *request.mutable_tokens() = question;
  Ask(std::move(request), ReadingText(std::move(done)));
}

void RemoteCluster::AskQuotas(const ::pathways::v1::QuotaQuestion& question, ResultCallback<std::string> done) {
  SessionRequest request;
  *request.mutable_quotas() = question;
  Ask(std::move(request), ReadingText(std::move(done)));
}

void RemoteCluster::RecordTrace(absl::Duration duration, size_t max_events, ResultCallback<session::ClusterTrace> done) {
  SessionRequest request;
  request.mutable_record_trace()->set_seconds(absl::ToDoubleSeconds(duration));
  request.mutable_record_trace()->set_max_events(max_events);
  Ask(std::move(request), Reading(std::move(done), [](const Answer& answer, const Bytes& payload) {
        session::ClusterTrace trace = session::ClusterTraceFrom(answer.trace());
        trace.perfetto_json = std::string(payload.view());
        return trace;
      }));
}

void RemoteCluster::Observe(ResultCallback<std::shared_ptr<RemoteSession>> done) {
  Link::Options link = LinkOptions("an operator's question");
  link.hello.set_observer(true);
  Open(std::move(link), std::move(done));
}

// ---- profiles

// The controller decides by the client's role whether the profile shows everything.
void RemoteCluster::StartProfile(SessionId session, const session::ProfileOptions& options, session::StatusCallback done) {
  SessionRequest request;
  request.mutable_profile()->mutable_start()->set_merged(options.merged);
  request.mutable_profile()->mutable_start()->set_max_bytes(options.max_bytes);
  Ask(session, std::move(request), ReadingStatus(std::move(done)));
}

void RemoteCluster::StopProfile(SessionId session, ResultCallback<session::ClusterProfile> done) {
  SessionRequest request;
  request.mutable_profile()->set_stop(true);
  Ask(session, std::move(request), Reading(std::move(done), [](const Answer& answer, const Bytes& payload) {
        session::ClusterProfile profile = session::ClusterProfileFrom(answer.profile());
        profile.trace.perfetto_json = std::string(payload.view());
        return profile;
      }));
}

void RemoteCluster::ReadProfile(SessionId session, size_t host, uint64_t offset, ResultCallback<Bytes> done) {
  SessionRequest request;
  request.mutable_profile()->mutable_read()->set_host(static_cast<uint32_t>(host));
  request.mutable_profile()->mutable_read()->set_offset(offset);
  Ask(session, std::move(request), Reading(std::move(done), [](const Answer&, const Bytes& payload) { return payload; }));
}

void RemoteCluster::DropProfile(SessionId session) {
  SessionRequest request;
  request.mutable_profile()->set_drop(true);
  Ask(session, std::move(request), [](auto, Bytes) {});
}

}  // namespace pw::client
