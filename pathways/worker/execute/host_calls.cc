#include "pathways/worker/execute/host_calls.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"

namespace pw::worker {
namespace v1 = pathways::v1;

HostCalls::HostCalls(WorkerContext* context, device::DeviceRuntime* runtime, ClientLanes* lanes)
    : context_(context), runtime_(runtime), lanes_(lanes) {
  runtime_->SetHostCallHandler(
      [this, strand = context->strand(), alive = context->alive()](device::HostCallRequest request, DoneFn done) {
        auto shared = std::make_shared<device::HostCallRequest>(std::move(request));
        strand->Post([this, alive, shared, done = std::move(done)]() mutable {
          if (alive.expired())
            return done(absl::UnavailableError("the worker has lost its controller while the program was calling back"));
          Call(*shared, std::move(done));
        });
      });
}

HostCalls::~HostCalls() {
  runtime_->SetHostCallHandler(nullptr);
  absl::flat_hash_map<uint64_t, Pending> pending;
  pending.swap(pending_);
  for (uint64_t call : SortedKeys(pending))
    pending.at(call).done(absl::UnavailableError("the worker has lost its controller while the program was calling back"));
}

void HostCalls::Call(const device::HostCallRequest& request, DoneFn done) {
  if (context_->ended(request.session))
    return done(absl::CancelledError("the client has gone; nobody can answer its program's callback"));
  if (context_->recorder().on()) done = Recorded(request, std::move(done));
  if (lanes_->Serves(request.session)) return lanes_->Call(request, std::move(done));
  const uint64_t call = next_call_++;
  pending_[call] = {request.session, std::move(done)};
  std::vector<Bytes> payload;
  for (const device::HostCallOperand& operand : request.operands) payload.push_back(operand.data);
  v1::HostCall* message = context_->outbox().Add(std::move(payload))->mutable_host_call();
  message->set_call(call);
  message->set_session(request.session.v);
  message->set_callback(request.callback);
  message->set_local_device(request.device);
  for (const device::HostCallOperand& operand : request.operands) {
    auto* out = message->add_operands();
    out->set_dtype(static_cast<int32_t>(operand.dtype));
    for (int64_t d : operand.dims) out->add_dims(d);
    out->set_bytes(operand.data.size());
  }
}

HostCalls::DoneFn HostCalls::Recorded(const device::HostCallRequest& request, DoneFn done) {
  return [context = context_, begun = context_->clock()->Now(), name = absl::StrCat("callback ", request.callback),
          session = request.session.v, done = std::move(done)](device::HostCallReply reply) {
    context->recorder().Span(trace::Kind::kHost, "callbacks", name, begun, {.session = session});
    done(std::move(reply));
  };
}

void HostCalls::Reply(const v1::HostReply& reply, const Bytes& payload) {
  auto it = pending_.find(reply.call());
  if (it == pending_.end()) return;  // cancelled meanwhile
  DoneFn done = std::move(it->second.done);
  pending_.erase(it);
  const absl::Status status = FromProto(reply.status());
  if (!status.ok()) return done(status);
  std::vector<Bytes> results;
  size_t offset = 0;
  for (uint64_t size : reply.result_bytes()) {
    if (size > payload.size() - offset)
      return done(absl::InvalidArgumentError("the reply to a host callback is shorter than it says"));
    results.push_back(payload.Slice(offset, size));
    offset += size;
  }
  done(std::move(results));
}

void HostCalls::ReleaseOwner(SessionId session) {
  for (Pending& call : TakeWhere(pending_, [session](const Pending& p) { return p.session == session; })) {
    call.done(absl::CancelledError("the client has gone; nobody can answer its program's callback"));
  }
}

}  // namespace pw::worker
