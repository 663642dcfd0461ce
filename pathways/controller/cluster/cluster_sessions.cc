// Sessions, and calls from running programs to their clients.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/session/wire.h"

namespace pw::controller {
namespace {

// The results travel in one frame.
constexpr size_t kMaxHostReplyBytes = size_t{512} << 20;

}  // namespace

absl::Status ClusterImpl::CanServe() const {
  if (!formed_) {
    return absl::UnavailableError(absl::StrCat("the cluster has not formed yet: ", PendingLinks().size(), " of ",
                                               options_.expect_hosts,
                                               " hosts have joined. Start the missing workers, or try again in a moment."));
  }
  if (hosts_.empty())
    return absl::UnavailableError("the cluster has lost all its hosts: start workers that join it (pathways worker --join)");
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> ClusterImpl::OpenSession(std::string description, bool observer) {
  if (stopped_) return absl::UnavailableError("the controller is stopping");
  if (!observer) PW_RETURN_IF_ERROR(CanServe());  // operators ask at any time
  const SessionId id(observer ? next_observer_++ : next_session_++);
  auto on_end = [weak = weak_from_this(), id] {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->sessions_.erase(id);
    self->handlers_.erase(id);
    self->slices_->EndSession(id);
  };
  auto session = std::make_shared<SessionImpl>(id, std::move(description), fabric_.get(), std::move(on_end));
  sessions_[id] = {session.get(), environment_.clock->Now(), observer};
  return std::shared_ptr<Session>(std::move(session));
}

void ClusterImpl::OpenSession(session::NewSession session, ResultCallback<std::shared_ptr<Session>> done) {
  using Opened = absl::StatusOr<std::shared_ptr<Session>>;
  const absl::Status sound = gang::Changed({}, session.share).status();
  Opened opened = sound.ok() ? OpenSession(std::move(session.description), session.observer) : Opened(sound);
  if (opened.ok() && !session.share.empty()) ChangeShare((*opened)->id(), session.share).status().IgnoreError();  // it was checked above
  Answer(std::move(opened), std::move(done));
}

void ClusterImpl::SetHostCallHandler(SessionId session, std::shared_ptr<HostCallHandler> handler) {
  auto opened = sessions_.find(session);
  if (opened == sessions_.end()) return;
  opened->second.session->SetHostCalls(handler);
  if (handler == nullptr)
    handlers_.erase(session);
  else
    handlers_[session] = std::move(handler);
}

absl::StatusOr<gang::Share> ClusterImpl::ChangeShare(SessionId session, const gang::ShareChange& change) {
  if (auto found = sessions_.find(session); found == sessions_.end() || found->second.observer) {
    std::vector<uint64_t> known;
    for (const auto& [id, opened] : sessions_)
      if (!opened.observer) known.push_back(id.v);
    return absl::NotFoundError(
        absl::StrCat("there is no client ", session.v,
                     known.empty() ? "; none is connected" : "; the clients that are connected: ", absl::StrJoin(known, ", ")));
  }
  PW_ASSIGN_OR_RETURN(const gang::Share share, gang::Changed(fabric_->gangs().ClientOf(session).share, change));
  fabric_->gangs().SetShare(session, share);
  return share;
}

void ClusterImpl::OnHostCall(HostId host, const ::pathways::v1::HostCall& proto, const Bytes& payload) {
  fabric_->CountArrayBytes(payload.size());
  auto handler = handlers_.find(SessionId(proto.session()));
  if (handler == handlers_.end()) return ReplyToHostCall(host, proto.call(), session::NoHostCallHandler());
  HostCall call;
  call.callback = proto.callback();
  size_t offset = 0;
  for (const auto& operand : proto.operands()) {
    auto dtype = buffers::DTypeFromNumber(operand.dtype());
    if (!dtype.ok()) return ReplyToHostCall(host, proto.call(), dtype.status());
    call.operands.push_back({*dtype, buffers::Dims(operand.dims().begin(), operand.dims().end()), std::nullopt});
    call.data.push_back(operand.bytes() == 0 ? Bytes() : payload.Slice(offset, operand.bytes()));
    offset += operand.bytes();
  }
  const std::shared_ptr<HostCallHandler> keep = handler->second;  // it may end its session, which erases the handler
  keep->OnHostCall(std::move(call),
                   [weak = weak_from_this(), host, id = proto.call()](absl::StatusOr<std::vector<Bytes>> results) {
                     if (auto self = weak.lock()) self->ReplyToHostCall(host, id, std::move(results));
                   });
}

void ClusterImpl::ReplyToHostCall(HostId host, uint64_t call, absl::StatusOr<std::vector<Bytes>> results) {
  ::pathways::v1::Command command;
  auto& reply = *command.mutable_host_reply();
  reply.set_call(call);
  session::ToProto(results.status(), reply.mutable_status());
  std::vector<Bytes> payload;
  if (results.ok()) payload = *std::move(results);
  size_t total = 0;
  for (const Bytes& result : payload) total += result.size();
  if (total > kMaxHostReplyBytes) {
    return ReplyToHostCall(
        host, call,
        absl::ResourceExhaustedError(
            absl::StrCat("a Python function returned ", total, " bytes to a computation, the limit is ", kMaxHostReplyBytes)));
  }
  fabric_->CountArrayBytes(total);
  for (const Bytes& result : payload) reply.add_result_bytes(result.size());
  fabric_->outbox().Add(host, std::move(command), std::move(payload));
}

}  // namespace pw::controller
