// Calls that nodes of programs make to functions of this process (SessionHostCall). Their operands are fetched, and their results are host
// buffers; both travel by lane.
#include <memory>
#include <utility>

#include "pathways/base/status_macros.h"
#include "pathways/client/remote_session.h"
#include "pathways/session/wire.h"

namespace pw::client {

using ::pathways::v1::SessionHostCall;
using ::pathways::v1::SessionRequest;

struct RemoteSession::NodeCall {
  uint64_t number = 0;
  session::HostCall call;
  size_t left = 0;  // operands that have not arrived
  absl::Status error;
};

void RemoteSession::OnNodeCall(const SessionHostCall& proto) {
  auto call = std::make_shared<NodeCall>();
  call->number = proto.call();
  call->call.callback = proto.callback();
  call->call.data.resize(static_cast<size_t>(proto.operands_size()));
  call->left = call->call.data.size() + 1;  // plus one for this function
  for (int i = 0; i < proto.operands_size(); ++i) {
    const SessionHostCall::Operand& operand = proto.operands(i);
    const auto dtype = buffers::DTypeFromNumber(operand.dtype());
    call->error.Update(dtype.status());
    call->call.operands.push_back(
        {dtype.value_or(buffers::DType::kInvalid), buffers::Dims(operand.dims().begin(), operand.dims().end()), std::nullopt});
    const auto bytes = HostBuffers::BytesOf(call->call.operands.back());
    FetchBytes(operand.array(), std::nullopt, 0, bytes.ok() ? std::optional(*bytes) : std::nullopt,
               [this, alive = std::weak_ptr<bool>(alive_), call, i](absl::StatusOr<Bytes> data) {
                 if (alive.expired()) return;
                 call->error.Update(data.status());
                 if (data.ok()) call->call.data[i] = *std::move(data);
                 if (--call->left == 0) RunNodeCall(*call);
               });
  }
  if (--call->left == 0) RunNodeCall(*call);
}

void RemoteSession::RunNodeCall(NodeCall& call) {
  if (call.error.ok() && host_calls_ == nullptr) call.error = session::NoHostCallHandler();
  if (!call.error.ok()) return ReplyToNodeCall(call.number, call.error);
  const auto keep = host_calls_;  // it may end this session
  keep->OnHostCall(std::move(call.call),
                   [this, alive = std::weak_ptr<bool>(alive_), number = call.number](absl::StatusOr<std::vector<Bytes>> results) {
                     if (!alive.expired()) ReplyToNodeCall(number, std::move(results));
                   });
}

void RemoteSession::ReplyToNodeCall(uint64_t number, absl::StatusOr<std::vector<Bytes>> results) {
  if (!ended_.ok()) return;
  SessionRequest request;
  auto& reply = *request.mutable_host_call_reply();
  reply.set_call(number);
  session::ToProto(results.status(), reply.mutable_status());
  for (size_t i = 0; results.ok() && i < results->size(); ++i) {
    auto& result = *reply.add_results();
    result.set_bytes((*results)[i].size());
    if (result.bytes() == 0) continue;
    result.set_buffer(NewHandle());
    lanes_->buffers().Offer(result.buffer(), std::move((*results)[i]));
  }
  link_->Send(std::move(request));
}

}  // namespace pw::client
