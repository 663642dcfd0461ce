// Sessions of the controller before: their clients come back, and send what they have (session.proto, Controllers that return).
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/session/service.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using ::pathways::v1::ClientFrame;
using ::pathways::v1::ControllerFrame;
using ::pathways::v1::SessionHello;

// The most that one client may send to restore its session. Clients keep less (client/kept_requests.h, client/compiled_programs.h).
constexpr size_t kMostRestoredBytes = size_t{1} << 30;

}  // namespace

absl::Status SessionService::CheckFormer(const identity::Caller& caller, const SessionHello& hello) const {
  if (!restores()) return NotThere(hello);
  if (hello.epoch() > options_.epoch)
    return absl::ResourceExhaustedError("another controller has taken the place of this one: the session belongs to that one");
  if (!SameSecret(hello.key(), options_.session_key(hello.epoch(), hello.session(), caller.user))) {
    return absl::UnavailableError(
        absl::StrCat("the controller of session ", hello.session(),
                     " has ended, and the one that has taken its place does not know the session's key: "
                     "it was started with another folder for its identity"));
  }
  if (reopening_.contains(hello.session())) return absl::ResourceExhaustedError("the session is being restored");
  return environment_.cluster->CanRestore(SessionId(hello.session()));
}

absl::Status SessionService::BeginRestore(LinkId link, const identity::Caller& caller, const SessionHello& hello) {
  if (absl::Status status = CheckFormer(caller, hello); !status.ok()) return status;
  for (const auto& [other, restored] : restoring_) {
    if (restored.hello.session() == hello.session())
      links_.at(other)->connection().Close(absl::UnavailableError("the client has connected anew"));
  }
  std::erase_if(restoring_, [&](const auto& other) { return other.second.hello.session() == hello.session(); });
  net::Connection& connection = links_.at(link)->connection();
  restoring_[link] = {caller, hello, connection.proof() == net::PeerProof::kOwn};
  ControllerFrame frame;
  frame.set_restore_wanted(true);
  connection.Send(frame.SerializeAsString());
  return absl::OkStatus();
}

absl::Status SessionService::TakeRestore(LinkId link, ClientFrame& frame, std::vector<Bytes> payloads, size_t bytes) {
  if (!frame.has_restore()) return absl::InvalidArgumentError("a session that is restored begins with what it has");
  Restored& restored = restoring_.at(link);
  restored.bytes += bytes;
  if (restored.bytes > kMostRestoredBytes)
    return absl::UnavailableError(absl::StrCat("its controller has ended, and more than ", kMostRestoredBytes >> 30,
                                               " GiB would be needed to restore the session"));
  restored.parts.push_back({std::move(*frame.mutable_restore()), std::move(*frame.mutable_requests()), std::move(payloads)});
  if (restored.parts.back().restore.last_request() == 0) return absl::OkStatus();
  OpenRestored(link, std::move(restoring_.extract(link).mapped()));
  return absl::OkStatus();
}

void SessionService::OpenRestored(LinkId link, Restored restored) {
  const SessionHello& hello = restored.hello;
  if (const absl::Status status = CheckFormer(restored.caller, hello); !status.ok()) return Refuse(link, status);
  NewSession wanted{hello.description(), {}, false, restored.caller.user, restored.caller.is_operator()};
  if (hello.has_weight()) wanted.share.weight = hello.weight();
  if (hello.has_priority()) wanted.share.priority = hello.priority();
  wanted.restored = hello.session();
  reopening_.insert(hello.session());
  environment_.cluster->OpenSession(std::move(wanted), [weak = weak_from_this(), link, restored = std::move(restored)](
                                                           absl::StatusOr<std::shared_ptr<Session>> session) mutable {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->reopening_.erase(restored.hello.session());
    if (session.ok()) return self->OnReopened(link, std::move(restored), *std::move(session));
    if (self->links_.contains(link)) self->Refuse(link, session.status());
  });
}

// The connection may have broken meanwhile: the session goes on, and its client comes back.
void SessionService::OnReopened(LinkId link, Restored restored, std::shared_ptr<Session> session) {
  const uint64_t id = session->id().v;
  Entry& entry = AddEntry(link, restored.caller, std::move(session), restored.hello, restored.own_user);
  entry.former_key = restored.hello.key();
  entry.restoring = true;
  const std::shared_ptr<ServedSession> served = entry.served;
  if (entry.link == 0) Detach(id, options_.controller_grace);
  served->Restore(std::move(restored.parts), [weak = weak_from_this(), id](const absl::Status& status) {
    if (auto self = weak.lock()) self->OnRestored(id, status);
  });
}

void SessionService::OnRestored(uint64_t session, const absl::Status& status) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  if (!status.ok() && !absl::IsUnavailable(status))
    return End(session, absl::UnavailableError(
                            absl::StrCat("its controller has ended, and another one cannot restore it: ", status.message())));
  if (!status.ok()) return End(session, status);
  PW_LOG_INFO << "session " << session << " of the controller before goes on here";
  it->second.restoring = false;
  if (it->second.link != 0) WelcomeBack(it->second, session);
}

void SessionService::WelcomeBack(Entry& entry, uint64_t session) {
  net::Connection& connection = links_.at(entry.link)->connection();
  ControllerFrame frame;
  auto& welcome = *frame.mutable_welcome();
  welcome.set_session(session);
  welcome.set_key(entry.key);
  welcome.set_received(entry.served->carried_out());
  DescribeLife(connection, entry, &welcome);
  connection.Send(frame.SerializeAsString());
  PostFlush(session);
}

}  // namespace pw::session
