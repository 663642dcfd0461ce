#include "pathways/controller/cluster/clients/session_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/wire.h"

namespace pw::controller {
namespace {

// The results travel in one frame.
constexpr size_t kMaxHostReplyBytes = size_t{512} << 20;

absl::StatusOr<HostCall> FromProto(const ::pathways::v1::HostCall& proto, const Bytes& payload) {
  HostCall call;
  call.callback = proto.callback();
  size_t offset = 0;
  for (const auto& operand : proto.operands()) {
    PW_ASSIGN_OR_RETURN(const buffers::DType dtype, buffers::DTypeFromNumber(operand.dtype()));
    call.operands.push_back({dtype, buffers::Dims(operand.dims().begin(), operand.dims().end()), std::nullopt});
    call.data.push_back(operand.bytes() == 0 ? Bytes() : payload.Slice(offset, operand.bytes()));
    offset += operand.bytes();
  }
  return call;
}

}  // namespace

SessionRegistry::SessionRegistry(Fabric* fabric, Clock* clock, std::function<void(SessionId)> on_end)
    : fabric_(fabric), clock_(clock), on_end_(std::move(on_end)) {}

std::shared_ptr<Session> SessionRegistry::Open(session::NewSession about) {
  const bool observer = about.observer;
  if (about.restored != 0) Reserve(SessionId(about.restored));
  const SessionId id(about.restored != 0 ? about.restored : observer ? next_observer_++ : next_client_++);
  auto on_end = [this, alive = std::weak_ptr<bool>(alive_), id] {
    if (alive.expired()) return;
    const auto ended = opened_.extract(id);
    on_end_(id);
  };
  auto session = std::make_shared<SessionImpl>(id, std::move(about), fabric_, publications_, std::move(on_end));
  opened_[id] = {session.get(), clock_->Now(), observer};
  return session;
}

SessionImpl* SessionRegistry::Find(SessionId session) const {
  auto it = opened_.find(session);
  return it == opened_.end() ? nullptr : it->second.session;
}

std::vector<SessionImpl*> SessionRegistry::All() const {
  std::vector<SessionImpl*> sessions;
  for (const auto& [id, opened] : opened_) sessions.push_back(opened.session);
  return sessions;
}

absl::StatusOr<gang::Share> SessionRegistry::ChangeShare(SessionId session, const gang::ShareChange& change) {
  if (auto found = opened_.find(session); found == opened_.end() || found->second.observer) {
    std::vector<uint64_t> known;
    for (const auto& [id, opened] : opened_)
      if (!opened.observer) known.push_back(id.v);
    return absl::NotFoundError(
        absl::StrCat("there is no client ", session.v,
                     known.empty() ? "; none is connected" : "; the clients that are connected: ", absl::StrJoin(known, ", ")));
  }
  PW_ASSIGN_OR_RETURN(const gang::Share share, gang::Changed(fabric_->gangs().ClientOf(session).share, change));
  fabric_->gangs().SetShare(session, share);
  return share;
}

void SessionRegistry::SetHostCallHandler(SessionId session, std::shared_ptr<HostCallHandler> handler) {
  auto opened = opened_.find(session);
  if (opened == opened_.end()) return;
  opened->second.session->SetHostCalls(handler);
  const auto before =
      std::exchange(opened->second.calls, std::move(handler));  // ends last: it may end its session, and this entry
}

absl::Duration SessionRegistry::SetAway(SessionId session, bool away) {
  auto opened = opened_.find(session);
  if (opened == opened_.end()) return absl::ZeroDuration();
  const absl::Time now = clock_->Now();
  const std::optional<absl::Time> since = std::exchange(opened->second.away_since, away ? std::optional(now) : std::nullopt);
  return since.has_value() ? now - *since : absl::ZeroDuration();
}

void SessionRegistry::OnHostCall(HostId host, const ::pathways::v1::HostCall& proto, const Bytes& payload) {
  fabric_->CountArrayBytes(payload.size());
  auto opened = opened_.find(SessionId(proto.session()));
  if (opened == opened_.end() || opened->second.calls == nullptr) return Reply(host, proto.call(), session::NoHostCallHandler());
  absl::StatusOr<HostCall> call = FromProto(proto, payload);
  if (!call.ok()) return Reply(host, proto.call(), call.status());
  const std::shared_ptr<HostCallHandler> keep = opened->second.calls;  // it may end its session, which erases the handler
  keep->OnHostCall(*std::move(call), [this, alive = std::weak_ptr<bool>(alive_), host,
                                      id = proto.call()](absl::StatusOr<std::vector<Bytes>> results) {
    if (!alive.expired()) Reply(host, id, std::move(results));
  });
}

void SessionRegistry::Reply(HostId host, uint64_t call, absl::StatusOr<std::vector<Bytes>> results) {
  ::pathways::v1::Command command;
  auto& reply = *command.mutable_host_reply();
  reply.set_call(call);
  session::ToProto(results.status(), reply.mutable_status());
  std::vector<Bytes> payload;
  if (results.ok()) payload = *std::move(results);
  size_t total = 0;
  for (const Bytes& result : payload) total += result.size();
  if (total > kMaxHostReplyBytes) {
    return Reply(host, call,
                 absl::ResourceExhaustedError(absl::StrCat("a Python function returned ", total,
                                                           " bytes to a computation, the limit is ", kMaxHostReplyBytes)));
  }
  fabric_->CountArrayBytes(total);
  for (const Bytes& result : payload) reply.add_result_bytes(result.size());
  fabric_->outbox().Add(host, std::move(command), std::move(payload));
}

}  // namespace pw::controller
