#include "pathways/session/service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/absence.h"
#include "pathways/session/quota_questions.h"
#include "pathways/session/token_questions.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using ::pathways::v1::ClientFrame;
using ::pathways::v1::ControllerFrame;
using ::pathways::v1::SessionHello;

constexpr uint32_t kVersion = 1;
// If there is nothing else to send, an acknowledgement goes out after this many requests or bytes.
constexpr uint64_t kUntold = 64;
constexpr size_t kUntoldBytes = 64 << 10;
constexpr size_t kMostForgotten = 1000;
// Added to the time that a session is kept. If this process was stopped for a while, it reads the waiting hellos first.
constexpr absl::Duration kLastCall = absl::Seconds(2);

}  // namespace

std::shared_ptr<SessionService> SessionService::Create(Options options, const Environment& environment) {
  std::shared_ptr<SessionService> service(new SessionService(std::move(options), environment));
  if (identity::ClusterIdentity* identity = service->options_.identity) {
    identity->OnRevoked([weak = service->weak_from_this()](const std::string& token_id) {
      if (auto self = weak.lock()) self->OnRevoked(token_id);
    });
  }
  return service;
}

SessionService::SessionService(Options options, const Environment& environment)
    : options_(std::move(options)), environment_(environment) {}

SessionService::~SessionService() = default;

absl::StatusOr<std::string> SessionService::Listen(net::Transport* transport, const std::string& address) {
  PW_ASSIGN_OR_RETURN(auto listener, transport->Listen(address, [strand = environment_.cluster, weak = weak_from_this()](
                                                                    std::unique_ptr<net::Connection> connection) {
    strand->Post([weak, connection = std::move(connection)]() mutable {
      if (auto self = weak.lock()) self->AddConnection(std::move(connection));
    });
  }));
  listeners_.push_back(std::move(listener));
  return listeners_.back()->address();
}

SessionService::Link::PostToOwner SessionService::PostToThis() {
  return [strand = environment_.cluster, weak = weak_from_this()](absl::AnyInvocable<void(Link::Owner&)&&> task) {
    strand->Post([weak, task = std::move(task)]() mutable {
      if (auto self = weak.lock()) std::move(task)(*self);
    });
  };
}

void SessionService::AddConnection(std::unique_ptr<net::Connection> connection) {
  const LinkId id = next_link_++;
  auto& link = links_[id] = std::make_unique<Link>(id, std::move(connection), PostToThis());
  if (link->connection().proof() == net::PeerProof::kOwn) {
    link->Trust();
  } else {
    Watch(id);
  }
  link->Start();
}

void SessionService::Watch(LinkId link) {
  if (std::optional<LinkId> oldest = strangers_.Add(link)) Refuse(*oldest, strangers_.TooMany());
  environment_.timers->After(strangers_.kGreetingTime, environment_.cluster, [weak = weak_from_this(), link] {
    auto self = weak.lock();
    if (self != nullptr && self->strangers_.Remove(link)) self->Refuse(link, self->strangers_.TooSlow());
  });
}

void SessionService::Trust(LinkId link) {
  strangers_.Remove(link);
  links_.at(link)->Trust();
}

void SessionService::Stop(const absl::Status& status) {
  left_ = false;
  listeners_.clear();
  while (!sessions_.empty()) End(sessions_.begin()->first, status);
  opening_.clear();
  links_.clear();
}

void SessionService::OnFrame(LinkId link, ClientFrame frame, std::vector<Bytes> payloads, size_t bytes) {
  if (!links_.contains(link)) return;
  auto known = session_of_.find(link);
  if (restoring_.contains(link)) {
    if (const absl::Status status = TakeRestore(link, frame, std::move(payloads), bytes); !status.ok()) Refuse(link, status);
    return;
  }
  if (known == session_of_.end()) {
    if (frame.has_hello() && !opening_.contains(link)) return OnHello(link, frame.hello());
    return Refuse(link, absl::InvalidArgumentError("a connection must begin with a hello, and go on when that is answered"));
  }
  const uint64_t session = known->second;
  Entry& entry = sessions_.at(session);
  if (entry.link != link) return;  // another connection has replaced this one
  if (entry.restoring) return End(session, absl::InvalidArgumentError("requests came before the welcome"));
  if (!pausing_.empty()) return TakeAcknowledgement(session, frame);
  if (const absl::Status status = OnBatch(entry, frame, std::move(payloads)); !status.ok()) return End(session, status);
  if (frame.goodbye()) return End(session, absl::OkStatus());
  // A request may have ended the session.
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  it->second.untold_bytes += bytes;
  if (it->second.served->carried_out() - it->second.told >= kUntold || it->second.untold_bytes >= kUntoldBytes)
    PostFlush(session);
}

absl::Status SessionService::OnBatch(Entry& entry, ClientFrame& frame, std::vector<Bytes> payloads) {
  const auto served = entry.served;
  PW_RETURN_IF_ERROR(served->Acknowledge(frame.ack()));
  if (frame.requests().empty()) return absl::OkStatus();
  return served->Take(frame.first(), std::move(*frame.mutable_requests()), std::move(payloads));
}

void SessionService::OnHello(LinkId link, const SessionHello& hello) {
  absl::Status status;
  if (!pausing_.empty()) {
    status = hello.session() == 0 ? absl::UnavailableError(Stopping().message()) : Stopping();
  } else if (hello.version() != kVersion) {
    status = absl::FailedPreconditionError(absl::StrCat("the client speaks version ", hello.version(),
                                                        " of the session protocol, this controller version ", kVersion,
                                                        ": install the same version of pathways on both sides"));
  } else {
    const absl::StatusOr<identity::Caller> caller = CallerOf(link, hello);
    if (!caller.ok()) return Refuse(link, caller.status());
    Trust(link);
    if (hello.session() == 0) return Open(link, *caller, hello);
    status = Resume(link, *caller, hello);
  }
  if (!status.ok()) Refuse(link, status);
}

absl::StatusOr<identity::Caller> SessionService::CallerOf(LinkId link, const SessionHello& hello) {
  const net::Connection& connection = links_.at(link)->connection();
  absl::StatusOr<identity::Caller> caller = options_.identity == nullptr
                                                ? identity::AdmitWithoutTokens(connection.proof())
                                                : options_.identity->AdmitClient(connection.proof(), hello.token());
  if (!caller.ok()) {
    PW_LOG_WARNING << "refused a client at " << connection.peer() << " with the token " << identity::TokenId(hello.token())
                   << ": " << caller.status().message();
  } else if (caller->role == identity::Role::kWorker && !hello.observer()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the token ", caller->token_id, " is that of a worker: a program needs a user's ('pathways token create')"));
  }
  return caller;
}

void SessionService::OnHang(SessionId session, const std::string& text) {
  const auto it = sessions_.find(session.v);
  if (it == sessions_.end() || !(it->second.ends_on_hang || options_.end_on_hang)) return;
  End(session.v, absl::DeadlineExceededError(text));
}

void SessionService::OnRevoked(const std::string& token_id) {
  const absl::Status status = absl::UnauthenticatedError(absl::StrCat("an operator has revoked the token ", token_id));
  std::vector<uint64_t> ended;
  for (const auto& [id, entry] : sessions_) {
    if (entry.caller.token_id == token_id) ended.push_back(id);
  }
  for (uint64_t id : ended) End(id, status);
  std::vector<LinkId> refused;
  for (const auto& [link, opening] : opening_) {
    if (opening.token_id == token_id) refused.push_back(link);
  }
  for (LinkId link : refused) {
    opening_.erase(link);
    Refuse(link, status);
  }
}

absl::StatusOr<std::string> SessionService::AnswerTokens(const ::pathways::v1::TokenQuestion& question) {
  if (options_.identity == nullptr) {
    return absl::UnimplementedError(
        "this controller has no tokens: it listens to processes of its own user only, or was started with --tls off. 'pathways "
        "up' gives it some");
  }
  return session::AnswerTokens(*options_.identity, question);
}

absl::StatusOr<std::string> SessionService::AnswerQuotas(uint64_t session, const ::pathways::v1::QuotaQuestion& question) {
  if (options_.identity == nullptr)
    return absl::UnimplementedError(
        "this controller has no tokens, so it knows no users, who could have quotas: see docs/security.md");
  const auto asker = sessions_.find(session);
  if (asker == sessions_.end()) return absl::UnavailableError("the session ends");
  return session::AnswerQuotas(*options_.identity, *environment_.cluster, asker->second.caller, question);
}

size_t SessionService::SessionsOf(const std::string& user) const {
  const auto is_users = [&](const auto& entry) { return entry.second.user == user; };
  const auto are_users = [&](const auto& entry) { return entry.second.caller.user == user; };
  return static_cast<size_t>(std::count_if(opening_.begin(), opening_.end(), is_users) +
                             std::count_if(sessions_.begin(), sessions_.end(), are_users));
}

void SessionService::Open(LinkId link, const identity::Caller& caller, const SessionHello& hello) {
  if (!caller.is_operator() && SessionsOf(caller.user) >= kMostOfOne)
    return Refuse(link, absl::ResourceExhaustedError(absl::StrCat("user '", caller.user, "' has ", kMostOfOne,
                                                                  " programs and tools connected, which is the most: end some")));
  NewSession wanted{hello.description(), {}, hello.observer(), caller.user, caller.is_operator()};
  if (hello.has_weight()) wanted.share.weight = hello.weight();
  if (hello.has_priority()) wanted.share.priority = hello.priority();
  wanted.client = (opening_[link] = {caller.token_id, caller.user}).client;
  wanted.tell = [weak = weak_from_this(), link](const std::string& line) {
    if (auto self = weak.lock()) self->Tell(link, line);
  };
  environment_.cluster->OpenSession(
      std::move(wanted), [weak = weak_from_this(), link, caller, hello](absl::StatusOr<std::shared_ptr<Session>> session) {
        auto self = weak.lock();
        if (self == nullptr || self->opening_.erase(link) == 0) return;  // the connection has ended
        if (!session.ok()) return self->Refuse(link, session.status());
        self->OnOpened(link, caller, *std::move(session), hello);
      });
}

void SessionService::Tell(LinkId link, const std::string& line) {
  if (!opening_.contains(link)) return;
  ControllerFrame frame;
  frame.set_notice(line);
  links_.at(link)->connection().Send(SerializedFrame(frame));
}

ServedSession::Owner SessionService::OwnerOf(uint64_t id) {
  const auto weak = weak_from_this();
  ServedSession::Owner owner;
  const auto flush = [weak, id] {
    if (auto self = weak.lock()) self->PostFlush(id);
  };
  owner.on_unsent = flush;
  owner.on_resumed = flush;
  owner.on_broken = [weak, id](absl::Status status) {
    if (auto self = weak.lock()) self->End(id, status);
  };
  owner.same_user = [weak, id](SessionId other) {
    auto self = weak.lock();
    if (self == nullptr) return false;
    auto ours = self->sessions_.find(id), theirs = self->sessions_.find(other.v);
    return ours != self->sessions_.end() && theirs != self->sessions_.end() &&
           ours->second.caller.user == theirs->second.caller.user;
  };
  owner.on_tokens = [weak](const ::pathways::v1::TokenQuestion& question) -> absl::StatusOr<std::string> {
    if (auto self = weak.lock()) return self->AnswerTokens(question);
    return absl::UnavailableError("the controller is stopping");
  };
  owner.on_quotas = [weak, id](const ::pathways::v1::QuotaQuestion& question) -> absl::StatusOr<std::string> {
    if (auto self = weak.lock()) return self->AnswerQuotas(id, question);
    return absl::UnavailableError("the controller is stopping");
  };
  return owner;
}

void SessionService::OnOpened(LinkId link, const identity::Caller& caller, std::shared_ptr<Session> session,
                              const SessionHello& hello) {
  const uint64_t id = session->id().v;
  const net::Connection& connection = links_.at(link)->connection();
  Entry& entry = AddEntry(link, caller, std::move(session), hello, connection.proof() == net::PeerProof::kOwn);
  ControllerFrame frame;
  auto& welcome = *frame.mutable_welcome();
  welcome.set_session(id);
  welcome.set_key(entry.key);
  if (!entry.observer) {  // an observer computes nothing
    DescribeLife(connection, entry, &welcome);
    ToProto(*environment_.cluster->info(), welcome.mutable_cluster());
    ToProto(*environment_.cluster->Spares(SessionId(id)), welcome.mutable_spares());
  }
  links_.at(link)->connection().Send(SerializedFrame(frame));
}

SessionService::Entry& SessionService::AddEntry(LinkId link, const identity::Caller& caller, std::shared_ptr<Session> session,
                                                const SessionHello& hello, bool own_user) {
  const uint64_t id = session->id().v;
  Entry& entry = sessions_[id];
  entry.key = restores() ? options_.session_key(options_.epoch, id, caller.user) : options_.make_key();
  entry.caller = caller;
  entry.observer = hello.observer();
  entry.ends_on_hang = hello.ends_on_hang();
  entry.client_end = hello.own_end();
  if (links_.contains(link)) {
    entry.link = link;
    session_of_[link] = id;
  }
  const ServedSession::Client client{caller, own_user, entry.observer, restores() && !entry.observer};
  entry.served = std::make_shared<ServedSession>(environment_.cluster, &programs_, std::move(session), client, OwnerOf(id));
  if (LaneRoutes* lanes = entry.served->lane_routes()) lanes->SetListener(entry.served);
  return entry;
}

// Tells the client how long the session is kept.
void SessionService::DescribeLife(const net::Connection& connection, const Entry& entry,
                                  ::pathways::v1::SessionWelcome* welcome) const {
  if (connection.breakable()) welcome->set_grace_seconds(absl::ToDoubleSeconds(options_.grace));
  if (!restores() || entry.observer) return;
  welcome->set_epoch(options_.epoch);
  welcome->set_controller_grace_seconds(absl::ToDoubleSeconds(options_.controller_grace));
}

absl::Status SessionService::Resume(LinkId link, const identity::Caller& caller, const SessionHello& hello) {
  auto it = sessions_.find(hello.session());
  // An unknown session and a wrong key get the same answer, which does not reveal the sessions that exist.
  if (it == sessions_.end() && hello.epoch() != 0 && hello.epoch() != options_.epoch) return BeginRestore(link, caller, hello);
  const bool knows_key =
      it != sessions_.end() && (SameSecret(hello.key(), it->second.key) ||
                                (!it->second.former_key.empty() && SameSecret(hello.key(), it->second.former_key)));
  if (!knows_key || it->second.caller.user != caller.user) return NotThere(hello);
  Entry& entry = it->second;
  // A client that shows another epoch has no event of this controller.
  const bool knows_us = hello.epoch() == 0 || hello.epoch() == options_.epoch;
  if (!entry.restoring) PW_RETURN_IF_ERROR(entry.served->stream().Resume(knows_us ? hello.received() : 0));
  if (entry.link != 0) links_.at(entry.link)->connection().Close(absl::UnavailableError("the client has connected anew"));
  if (entry.link == 0) environment_.cluster->SetAway(SessionId(it->first), false);
  entry.link = link;
  entry.client_end = hello.own_end();
  session_of_[link] = it->first;
  if (entry.restoring) return absl::OkStatus();  // it is welcomed when the session is restored
  if (!knows_us) return WelcomeBack(entry, it->first), absl::OkStatus();
  entry.former_key.clear();
  ControllerFrame frame;
  auto& welcome = *frame.mutable_welcome();
  welcome.set_session(it->first);
  welcome.set_received(entry.served->carried_out());
  if (restores() && !entry.observer) welcome.set_epoch(options_.epoch);
  links_.at(link)->connection().Send(frame.SerializeAsString());
  PostFlush(it->first);
  const std::shared_ptr<ServedSession> served = entry.served;
  return served->Acknowledge(hello.received());  // requests may have waited for this
}

absl::Status SessionService::NotThere(const SessionHello& hello) const {
  for (const Forgotten& forgotten : forgotten_) {
    if (forgotten.session != hello.session() || !SameSecret(hello.key(), forgotten.key)) continue;
    return absl::NotFoundError(
        absl::StrCat("session ", hello.session(), " was kept for ", absl::FormatDuration(forgotten.kept),
                     " without a connection to its client, which is the limit; then its arrays were freed"));
  }
  return absl::NotFoundError(absl::StrCat("session ", hello.session(),
                                          " is not there any more: its client was away for too long, or "
                                          "the controller has been started anew; its arrays are gone"));
}

void SessionService::Refuse(LinkId link, const absl::Status& status) {
  ControllerFrame frame;
  ToProto(status, frame.mutable_ended());
  net::Connection& connection = links_.at(link)->connection();
  connection.Send(frame.SerializeAsString());
  connection.Close(status);
}

void SessionService::OnLinkClosed(LinkId link, const absl::Status& reason) {
  const auto closed = links_.extract(link);
  opening_.erase(link);
  restoring_.erase(link);
  strangers_.Remove(link);
  auto known = session_of_.find(link);
  if (known == session_of_.end()) return;
  const uint64_t session = known->second;
  session_of_.erase(known);
  auto it = sessions_.find(session);
  if (it == sessions_.end() || it->second.link != link) return;
  const net::Connection& connection = closed.mapped()->connection();
  const absl::Duration kept =
      it->second.observer ? absl::ZeroDuration()
                          : KeptAfter({connection.breakable(), it->second.client_end, connection.peer(), reason}, options_.grace);
  PW_LOG_AT_(kept > absl::ZeroDuration() ? LogLevel::kInfo : LogLevel::kDebug)
      << "session " << session << " has lost its connection, and is kept for " << absl::FormatDuration(kept) << ": "
      << reason.message();
  Detach(session, kept);
}

void SessionService::Detach(uint64_t session, absl::Duration kept) {
  Entry& entry = sessions_.at(session);
  entry.link = 0;
  ++entry.absence;
  if (kept == absl::ZeroDuration()) return End(session, absl::OkStatus());
  environment_.cluster->SetAway(SessionId(session), true);
  const auto if_still_away = [weak = weak_from_this(), session, absence = entry.absence](auto then) {
    auto self = weak.lock();
    if (self == nullptr) return;
    auto it = self->sessions_.find(session);
    if (it != self->sessions_.end() && it->second.link == 0 && it->second.absence == absence) then(*self);
  };
  environment_.timers->After(kept, environment_.cluster, [if_still_away, session, kept] {
    if_still_away([&](SessionService& self) {
      self.environment_.timers->After(kLastCall, self.environment_.cluster, [if_still_away, session, kept] {
        if_still_away([&](SessionService& self) { self.Forget(session, kept); });
      });
    });
  });
}

void SessionService::Forget(uint64_t session, absl::Duration kept) {
  PW_LOG_INFO << "session " << session << " ends: its client did not come back within " << absl::FormatDuration(kept);
  if (forgotten_.size() == kMostForgotten) forgotten_.pop_front();
  forgotten_.push_back({session, sessions_.at(session).key, kept});
  End(session, absl::OkStatus());
}

void SessionService::End(uint64_t session, const absl::Status& status) {
  auto it = sessions_.find(session);
  if (it == sessions_.end() || left_) return;
  Entry entry = std::move(it->second);
  sessions_.erase(it);
  if (entry.link == 0) return;
  session_of_.erase(entry.link);
  net::Connection& connection = links_.at(entry.link)->connection();
  if (!status.ok()) {
    PW_LOG_WARNING << "session " << session << " ends: " << status;
    ControllerFrame frame;
    ToProto(status, frame.mutable_ended());
    connection.Send(frame.SerializeAsString());
  }
  connection.Close(status.ok() ? absl::OkStatus() : status);
}

void SessionService::PostFlush(uint64_t session) {
  auto it = sessions_.find(session);
  if (it == sessions_.end() || std::exchange(it->second.flush_posted, true)) return;
  environment_.cluster->Post([weak = weak_from_this(), session] {
    if (auto self = weak.lock()) self->Flush(session);
  });
}

void SessionService::Flush(uint64_t session) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  Entry& entry = it->second;
  entry.flush_posted = false;
  if (entry.link == 0 || entry.restoring) return;
  entry.served->TellSettled(/*all=*/!pausing_.empty());
  const uint64_t carried_out = entry.served->carried_out();
  SendBatches(entry.served->stream(), {carried_out, carried_out != entry.told}, links_.at(entry.link)->connection());
  entry.told = carried_out;
  entry.untold_bytes = 0;
}

}  // namespace pw::session
