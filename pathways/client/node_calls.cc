#include "pathways/client/node_calls.h"

#include "pathways/client/host_buffers.h"
#include "pathways/session/wire.h"

namespace pw::client {

using ::pathways::v1::SessionHostCall;
using ::pathways::v1::SessionRequest;

struct NodeCalls::Call {
  uint64_t number = 0;
  session::HostCall call;
  size_t left = 0;  // operands that have not arrived
  absl::Status error;
};

void NodeCalls::OnCall(const SessionHostCall& proto) {
  auto call = std::make_shared<Call>();
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
    owner_.fetch(operand.array(), bytes.ok() ? std::optional(*bytes) : std::nullopt,
                 [this, alive = std::weak_ptr<bool>(alive_), call, i](absl::StatusOr<Bytes> data) {
                   if (alive.expired()) return;
                   call->error.Update(data.status());
                   if (data.ok()) call->call.data[i] = *std::move(data);
                   if (--call->left == 0) Run(*call);
                 });
  }
  if (--call->left == 0) Run(*call);
}

void NodeCalls::Run(Call& call) {
  if (call.error.ok() && handler_ == nullptr) call.error = session::NoHostCallHandler();
  if (!call.error.ok()) return Reply(call.number, call.error);
  const auto keep = handler_;  // the handler may end the session
  keep->OnHostCall(std::move(call.call),
                   [this, alive = std::weak_ptr<bool>(alive_), number = call.number](absl::StatusOr<std::vector<Bytes>> results) {
                     if (!alive.expired()) Reply(number, std::move(results));
                   });
}

void NodeCalls::Reply(uint64_t call, absl::StatusOr<std::vector<Bytes>> results) {
  SessionRequest request;
  auto& reply = *request.mutable_host_call_reply();
  reply.set_call(call);
  session::ToProto(results.status(), reply.mutable_status());
  for (size_t i = 0; results.ok() && i < results->size(); ++i) {
    auto& result = *reply.add_results();
    result.set_bytes((*results)[i].size());
    if (result.bytes() != 0) result.set_buffer(owner_.offer(std::move((*results)[i])));
  }
  owner_.send(std::move(request));
}

}  // namespace pw::client
