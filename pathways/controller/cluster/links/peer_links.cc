#include "pathways/controller/cluster/links/peer_links.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::Event;
using ::pathways::v1::ToWorker;

namespace {

absl::Status AdmitWorker(identity::ClusterIdentity* identity, net::PeerProof proof, const std::string& token) {
  return identity == nullptr ? identity::AdmitWithoutTokens(proof).status() : identity->AdmitWorker(proof, token);
}

absl::StatusOr<identity::Caller> AdmitAsker(identity::ClusterIdentity* identity, net::PeerProof proof, const std::string& token) {
  if (proof == net::PeerProof::kWorker) return identity::Caller{"", identity::Role::kWorker};
  return identity == nullptr ? identity::AdmitWithoutTokens(proof) : identity->AdmitClient(proof, token);
}

// Takes no use of a join token: the same worker's Hello takes it.
absl::Status AdmitRuntime(identity::ClusterIdentity* identity, net::PeerProof proof, const std::string& token) {
  return identity == nullptr ? identity::AdmitWithoutTokens(proof).status() : identity->CheckWorker(proof, token);
}

ToWorker Shutdown(absl::string_view reason) {
  ToWorker message;
  message.add_commands()->mutable_shutdown()->set_reason(std::string(reason));
  return message;
}

}  // namespace

absl::StatusOr<std::string> PeerLinks::Listen(net::Transport* transport, const std::string& address) {
  auto on_accept = [this, context = context_](std::unique_ptr<net::Connection> connection) {
    context.Post([this, connection = std::move(connection)]() mutable { Add(std::move(connection)); });
  };
  PW_ASSIGN_OR_RETURN(listener_, transport->Listen(address, std::move(on_accept)));
  return listener_->address();
}

HostLink::PostToOwner PeerLinks::PostToThis() {
  return [this, context = context_](absl::AnyInvocable<void(HostLink::Owner&)&&> call) {
    context.Post([this, call = std::move(call)]() mutable { std::move(call)(*this); });
  };
}

void PeerLinks::Add(std::unique_ptr<net::Connection> connection) {
  if (stopped_) return;
  const LinkId id = next_link_++;
  Link& link = links_[id];
  link.link = std::make_unique<HostLink>(id, std::move(connection), PostToThis());
  link.last_heard = link.since = context_.Now();
  if (link.link->connection()->proof() == net::PeerProof::kOwn) {
    link.link->Trust();
  } else {
    if (std::optional<LinkId> oldest = strangers_.Add(id)) Refuse(*oldest, strangers_.TooMany());
  }
  link.link->Start();
}

void PeerLinks::Stop(const std::string& reason, bool stop_workers) {
  stopped_ = true;
  listener_ = nullptr;
  for (const auto& [id, link] : links_) {
    if (stop_workers) Send(id, Shutdown(reason));
    link.link->connection()->Close(absl::CancelledError(reason));
  }
  links_.clear();
}

void PeerLinks::Trust(LinkId id) {
  strangers_.Remove(id);
  links_.at(id).link->Trust();
}

bool PeerLinks::LetIn(LinkId id, const std::string& token) {
  const absl::Status admitted = AdmitWorker(context_.options().identity, connection(id)->proof(), token);
  if (!admitted.ok()) {
    Refuse(id, admitted);
    return false;
  }
  Trust(id);
  return true;
}

void PeerLinks::DropSlowStrangers(absl::Time now) {
  for (auto oldest = strangers_.oldest(); oldest.has_value(); oldest = strangers_.oldest()) {
    if (now - links_.at(*oldest).since <= strangers_.kGreetingTime) return;
    Refuse(*oldest, strangers_.TooSlow());
  }
}

void PeerLinks::OnWorkerMessage(LinkId id, ::pathways::v1::FromWorker message, std::vector<Bytes> payloads, size_t bytes) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  it->second.last_heard = context_.Now();
  if (it->second.state == State::kHost) {
    const absl::Status status = handler_->OnHostFrame(it->second.host, message, bytes);
    if (!status.ok()) return End(id, status);
  }
  for (int i = 0; i < message.events_size(); ++i) {
    if (!OnEvent(id, message.events(i), std::move(payloads[i]))) return;
  }
}

bool PeerLinks::OnEvent(LinkId id, const Event& event, Bytes payload) {
  auto it = links_.find(id);
  if (it == links_.end() || it->second.state == State::kLeaving) return false;
  const bool is_new = it->second.state == State::kNew;
  absl::Status status;
  if (event.has_hello() && is_new) {
    if (LetIn(id, event.hello().token())) handler_->OnHello(id, event.hello());
  } else if (event.has_resume() && is_new) {
    if (LetIn(id, event.resume().token())) handler_->OnResume(id, event.resume());
  } else if (event.has_goodbye()) {
    End(id, absl::UnavailableError(absl::StrCat("its worker ended: ", event.goodbye().reason())));
  } else if (event.has_pong()) {
    // Only updates last_heard.
  } else if (it->second.state == State::kHost) {
    status = handler_->OnHostEvent(it->second.host, event, std::move(payload));
  } else {
    status = absl::InvalidArgumentError("a worker's first message must be a hello, and it must send only one");
  }
  if (!status.ok()) End(id, status);
  return true;
}

void PeerLinks::OnAdminRequest(LinkId id, ::pathways::v1::AdminRequest request) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  const absl::StatusOr<identity::Caller> caller =
      AdmitAsker(context_.options().identity, connection(id)->proof(), request.token());
  if (!caller.ok()) return Refuse(id, caller.status());
  Trust(id);
  it->second.state = State::kLeaving;
  handler_->OnAdminRequest(id, *caller, request);
}

void PeerLinks::OnRuntimeMessage(LinkId id, ::pathways::v1::FromRuntime message) {
  auto it = links_.find(id);
  if (it == links_.end() || it->second.state == State::kLeaving) return;
  it->second.last_heard = context_.Now();
  if (it->second.state != (message.has_join() ? State::kNew : State::kRuntime)) {
    return End(id,
               absl::InvalidArgumentError("a device runtime's first message must join a world, and it must send only one such"));
  }
  it->second.unread = connection(id)->CanSendBulk() ? 0 : it->second.unread + 1;
  if (it->second.unread > kMostUnread)
    return End(id, absl::ResourceExhaustedError("the device runtime sends requests and does not read the answers"));
  if (message.has_join()) {
    const absl::Status admitted = AdmitRuntime(context_.options().identity, connection(id)->proof(), message.join().token());
    if (!admitted.ok()) return Refuse(id, admitted);
    strangers_.Remove(id);
    it->second.link->TrustRuntime();
    it->second.state = State::kRuntime;
  }
  handler_->OnRuntimeMessage(id, message);
}

void PeerLinks::Answer(LinkId id, absl::StatusOr<std::string> json) {
  if (!links_.contains(id)) return;
  ::pathways::v1::AdminReply reply;
  session::ToProto(json.status(), reply.mutable_status());
  if (json.ok()) reply.set_json(*std::move(json));
  connection(id)->Send(reply.SerializeAsString());
  connection(id)->Close(absl::CancelledError("answered"));
}

void PeerLinks::OnLinkWritable(LinkId id) {
  auto it = links_.find(id);
  if (it != links_.end() && it->second.state == State::kHost) handler_->OnHostWritable(it->second.host);
}

void PeerLinks::OnLinkClosed(LinkId id, const absl::Status& reason) {
  Break(id, reason);
  strangers_.Remove(id);
  links_.erase(id);
}

void PeerLinks::OnSilent(LinkId id) {
  Break(id, absl::DeadlineExceededError(
                absl::StrCat("nothing heard from it for ", absl::FormatDuration(context_.options().heartbeat_limit))));
}

void PeerLinks::Break(LinkId id, const absl::Status& reason) {
  const auto it = links_.find(id);
  if (it != links_.end() && it->second.state == State::kHost) return handler_->OnHostBroken(it->second.host, reason);
  End(id, reason);
}

void PeerLinks::End(LinkId id, const absl::Status& reason) {
  auto it = links_.find(id);
  if (it == links_.end() || it->second.state == State::kLeaving) return;
  if (it->second.state == State::kHost) return handler_->OnHostLost(it->second.host, reason);
  if (it->second.state == State::kPending) handler_->OnPendingLeft(id, reason);
  if (it->second.state == State::kRuntime) handler_->OnRuntimeLeft(id, reason);
  Close(id, reason);
}

void PeerLinks::SetHost(LinkId id, HostId host) {
  Link& link = links_.at(id);
  link.state = State::kHost;
  link.host = host;
}

void PeerLinks::Send(LinkId id, ToWorker message) {
  message.set_beside(true);
  connection(id)->Send(message.SerializeAsString());
}

void PeerLinks::Refuse(LinkId id, const absl::Status& reason) {
  strangers_.Remove(id);
  PW_LOG_WARNING << "refused a worker at " << connection(id)->peer() << ": " << reason.message();
  if (!absl::IsResourceExhausted(reason) && !absl::IsDeadlineExceeded(reason)) Send(id, Shutdown(reason.message()));
  Close(id, reason);
}

void PeerLinks::GiveUp(LinkId id, const std::string& reason) {
  ToWorker message;
  auto& given_up = *message.add_commands()->mutable_given_up();
  given_up.set_reason(reason);
  given_up.set_incarnation(incarnation_);
  Send(id, std::move(message));
  Close(id, absl::UnavailableError(reason));
}

void PeerLinks::Close(LinkId id, const absl::Status& reason) {
  Link& link = links_.at(id);
  link.state = State::kLeaving;
  link.link->connection()->Close(reason);
}

void PeerLinks::Forgive(absl::Time now) {
  for (auto& [id, link] : links_) link.last_heard = now;
}

std::vector<PeerLinks::Peer> PeerLinks::Peers() const {
  std::vector<Peer> peers;
  for (const auto& [id, link] : links_) {
    const bool is_host = link.state == State::kHost;
    peers.push_back({id, is_host ? std::optional(link.host) : std::nullopt,
                     link.state == State::kPending || link.state == State::kRuntime,
                     link.link->connection()->proof() == net::PeerProof::kOwn, link.last_heard});
  }
  return peers;
}

}  // namespace pw::controller
