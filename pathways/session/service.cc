#include "pathways/session/service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
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

}  // namespace

std::shared_ptr<SessionService> SessionService::Create(Options options, const Environment& environment) {
  return std::shared_ptr<SessionService>(new SessionService(std::move(options), environment));
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
  return [strand = environment_.cluster, weak = weak_from_this()](absl::AnyInvocable<void(Link::Owner&) &&> task) {
    strand->Post([weak, task = std::move(task)]() mutable {
      if (auto self = weak.lock()) std::move(task)(*self);
    });
  };
}

void SessionService::AddConnection(std::unique_ptr<net::Connection> connection) {
  const LinkId id = next_link_++;
  auto& link = links_[id] = std::make_unique<Link>(id, std::move(connection), PostToThis());
  link->Start();
}

void SessionService::Stop(const absl::Status& status) {
  listeners_.clear();
  while (!sessions_.empty()) End(sessions_.begin()->first, status);
  opening_.clear();
  links_.clear();
}

void SessionService::OnFrame(LinkId link, ClientFrame frame, std::vector<Bytes> payloads, size_t bytes) {
  if (!links_.contains(link)) return;
  auto known = session_of_.find(link);
  if (known == session_of_.end()) {
    if (frame.has_hello() && !opening_.contains(link)) return OnHello(link, frame.hello());
    return Refuse(link, absl::InvalidArgumentError("a connection must begin with a hello, and go on when that is answered"));
  }
  const uint64_t session = known->second;
  Entry& entry = sessions_.at(session);
  if (entry.link != link) return;  // another connection has replaced it
  if (const absl::Status status = OnBatch(entry, frame, std::move(payloads)); !status.ok()) return End(session, status);
  if (frame.goodbye()) return End(session, absl::OkStatus());
  // A request may have ended the session.
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  it->second.untold_bytes += bytes;
  if (it->second.served->carried_out() - it->second.told >= kUntold || it->second.untold_bytes >= kUntoldBytes) PostFlush(session);
}

absl::Status SessionService::OnBatch(Entry& entry, ClientFrame& frame, std::vector<Bytes> payloads) {
  const auto served = entry.served;
  PW_RETURN_IF_ERROR(served->Acknowledge(frame.ack()));
  if (frame.requests().empty()) return absl::OkStatus();
  return served->Take(frame.first(), std::move(*frame.mutable_requests()), std::move(payloads));
}

void SessionService::OnHello(LinkId link, const SessionHello& hello) {
  absl::Status status;
  if (hello.version() != kVersion) {
    status = absl::FailedPreconditionError(absl::StrCat("the client speaks version ", hello.version(),
                                                        " of the session protocol, this controller version ", kVersion,
                                                        ": install the same version of pathways on both sides"));
  } else {
    if (hello.session() == 0) return Open(link, hello);
    status = Resume(link, hello);
  }
  if (!status.ok()) Refuse(link, status);
}

void SessionService::Open(LinkId link, const SessionHello& hello) {
  NewSession wanted{hello.description(), {}, hello.observer()};
  if (hello.has_weight()) wanted.share.weight = hello.weight();
  if (hello.has_priority()) wanted.share.priority = hello.priority();
  opening_.insert(link);
  environment_.cluster->OpenSession(std::move(wanted), [weak = weak_from_this(), link, observer = hello.observer()](absl::StatusOr<std::shared_ptr<Session>> session) {
    auto self = weak.lock();
    if (self == nullptr || self->opening_.erase(link) == 0) return;  // the connection has ended
    if (!session.ok()) return self->Refuse(link, session.status());
    self->OnOpened(link, *std::move(session), observer);
  });
}

void SessionService::OnOpened(LinkId link, std::shared_ptr<Session> session, bool observer) {
  const uint64_t id = session->id().v;
  Entry& entry = sessions_[id];
  entry.key = options_.make_key();
  entry.link = link;
  session_of_[link] = id;
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
  entry.served = std::make_shared<ServedSession>(environment_.cluster, &programs_, std::move(session), options_.own_user, std::move(owner));
  if (LaneRoutes* lanes = entry.served->lane_routes()) lanes->SetListener(entry.served);
  ControllerFrame frame;
  auto& welcome = *frame.mutable_welcome();
  welcome.set_session(id);
  welcome.set_key(entry.key);
  if (!observer) {  // which computes nothing
    ToProto(*environment_.cluster->info(), welcome.mutable_cluster());
    ToProto(*environment_.cluster->Spares(SessionId(id)), welcome.mutable_spares());
  }
  links_.at(link)->connection().Send(SerializedFrame(frame));
}

absl::Status SessionService::Resume(LinkId link, const SessionHello& hello) {
  auto it = sessions_.find(hello.session());
  // The same answer for an unknown session and a wrong key, so that the answer does not reveal which sessions exist.
  if (it == sessions_.end() || !SameSecret(hello.key(), it->second.key)) {
    return absl::NotFoundError(absl::StrCat("session ", hello.session(), " is not there any more: its client was away for too long, or "
                                            "the controller has been started anew; its arrays are gone"));
  }
  Entry& entry = it->second;
  PW_RETURN_IF_ERROR(entry.served->stream().Resume(hello.received()));
  if (entry.link != 0) links_.at(entry.link)->connection().Close(absl::UnavailableError("the client has connected anew"));
  entry.link = link;
  session_of_[link] = it->first;
  ControllerFrame frame;
  auto& welcome = *frame.mutable_welcome();
  welcome.set_session(it->first);
  welcome.set_received(entry.served->carried_out());
  links_.at(link)->connection().Send(frame.SerializeAsString());
  PostFlush(it->first);
  const std::shared_ptr<ServedSession> served = entry.served;
  return served->Acknowledge(hello.received());  // requests may have waited for this
}

void SessionService::Refuse(LinkId link, const absl::Status& status) {
  ControllerFrame frame;
  ToProto(status, frame.mutable_ended());
  net::Connection& connection = links_.at(link)->connection();
  connection.Send(frame.SerializeAsString());
  connection.Close(status);
}

void SessionService::OnLinkClosed(LinkId link, const absl::Status& reason) {
  links_.erase(link);
  opening_.erase(link);
  auto known = session_of_.find(link);
  if (known == session_of_.end()) return;
  const uint64_t session = known->second;
  session_of_.erase(known);
  auto it = sessions_.find(session);
  if (it == sessions_.end() || it->second.link != link) return;
  PW_LOG_DEBUG << "session " << session << " has lost its connection: " << reason.message();
  Detach(session);
}

void SessionService::Detach(uint64_t session) {
  Entry& entry = sessions_.at(session);
  entry.link = 0;
  if (options_.grace == absl::ZeroDuration()) return End(session, absl::OkStatus());
  environment_.timers->After(options_.grace, environment_.cluster, [weak = weak_from_this(), session, absence = ++entry.absence] {
    auto self = weak.lock();
    if (self == nullptr) return;
    auto it = self->sessions_.find(session);
    if (it != self->sessions_.end() && it->second.link == 0 && it->second.absence == absence) self->End(session, absl::OkStatus());
  });
}

void SessionService::End(uint64_t session, const absl::Status& status) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
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
  if (entry.link == 0) return;
  const uint64_t carried_out = entry.served->carried_out();
  SendBatches(entry.served->stream(), {carried_out, carried_out != entry.told}, links_.at(entry.link)->connection());
  entry.told = carried_out;
  entry.untold_bytes = 0;
}

}  // namespace pw::session
