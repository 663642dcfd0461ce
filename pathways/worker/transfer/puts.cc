#include "pathways/worker/transfer/puts.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/byte_strides.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/worker/transfer/placement.h"

namespace pw::worker {
namespace v1 = pathways::v1;

struct Puts::Request {
  uint64_t op = 0;
  SessionId session;
  device::HostArray array;  // its data once they have arrived
  int64_t total_bytes = 0;
  struct Target {
    ShardRef shard;
    std::string memory_kind;
  };
  std::vector<Target> targets;
  size_t unsettled = 0;
  absl::Status status;
  HostQuota::Charge charge;  // once its bytes have come, until they are on the devices
};

absl::Status Puts::Check(const v1::Put& command, Request* request) const {
  device::HostArray& array = request->array;
  PW_ASSIGN_OR_RETURN(array.dtype, buffers::DTypeFromNumber(command.dtype()));
  if (buffers::HostBytes(array.dtype) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("arrays of type ", std::string(buffers::Name(array.dtype)), " have no elements to put on a device"));
  }
  array.dims.assign(command.dims().begin(), command.dims().end());
  PW_ASSIGN_OR_RETURN(request->total_bytes, buffers::DenseBytes(array.dtype, array.dims));
  if (command.has_byte_strides()) {
    array.byte_strides.emplace(command.byte_strides().begin(), command.byte_strides().end());
    PW_ASSIGN_OR_RETURN(const buffers::StridedExtent extent,
                        buffers::SpannedRegion(buffers::HostBytes(array.dtype), array.dims, *array.byte_strides));
    request->total_bytes = extent.bytes;
  }
  if (static_cast<int64_t>(command.total_bytes()) != request->total_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shape takes ", request->total_bytes, " bytes, ", command.total_bytes(), " were announced"));
  }
  const int devices = static_cast<int>(arrays_->runtime()->devices().size());
  for (const v1::Placement& placement : command.placements()) {
    if (placement.local_device() >= 0 && placement.local_device() < devices) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no local device ", placement.local_device(), "; this host has ", devices));
  }
  return absl::OkStatus();
}

void Puts::Put(const v1::Put& command, const Bytes& payload) {
  auto request = std::make_shared<Request>();
  request->op = command.op();
  request->session = SessionId(command.session());
  const ArrayId array(command.array());
  if (absl::Status status = Check(command, request.get()); !status.ok()) {
    arrays_->store().Poison(array, status, request->session);
    context_->outbox().Done(request->op, status);
    return;
  }
  for (const v1::Placement& placement : command.placements()) {
    request->targets.push_back({arrays_->NewShard(placement.local_device(), request->session), placement.memory_kind()});
    arrays_->store().Bind(array, placement.shard(), request->targets.back().shard, request->session);
  }
  request->unsettled = request->targets.size();
  if (request->targets.empty()) return context_->outbox().Done(request->op, absl::OkStatus());
  if (command.lane_buffer() != 0 && request->total_bytes > 0) {
    arrays_->memory().Begin();
    return lanes_->Expect(request->session, command.lane_buffer(), request->total_bytes,
                          [this, request](absl::StatusOr<Bytes> bytes) {
                            arrays_->memory().End();
                            Arrived(request, std::move(bytes));
                          });
  }
  if (command.payload_bytes() > 0 || request->total_bytes == 0) {
    if (static_cast<int64_t>(payload.size()) == request->total_bytes) return Arrived(request, payload);
    return Arrived(
        request, absl::InvalidArgumentError(absl::StrCat("a put of ", request->total_bytes, " bytes carries ", payload.size())));
  }
  arrays_->memory().Begin();
  staging_.Expect(command.transfer(), request->total_bytes, request->session, HostId(),
                  [this, request](absl::StatusOr<Bytes> bytes) {
                    arrays_->memory().End();
                    Arrived(request, std::move(bytes));
                  });
}

void Puts::AddChunk(const v1::Chunk& chunk, Bytes payload) {
  if (!chunk.has_shared()) return staging_.AddChunk(chunk, std::move(payload));
  absl::StatusOr<Bytes> shared = net::OpenShared(net::ReadName(chunk.shared()), chunk.exclusive());
  context_->outbox().Add()->mutable_shared_taken()->add_transfers(chunk.transfer());
  if (shared.ok()) return staging_.AddChunk(chunk, *std::move(shared));
  staging_.Fail(chunk.transfer(), shared.status(), SessionId(chunk.session()));
}

void Puts::Abort(const v1::AbortTransfer& command) {
  const absl::Status status = FromProto(command.status());
  staging_.Fail(command.transfer(), status.ok() ? absl::CancelledError("the transfer was aborted") : status,
                SessionId(command.session()));
}

void Puts::ReleaseOwner(SessionId session) {
  staging_.ReleaseOwner(session, absl::CancelledError("the client has gone, and with it the rest of this transfer"));
}

void Puts::Arrived(const RequestRef& request, absl::StatusOr<Bytes> bytes) {
  if (!bytes.ok()) {
    for (const Request::Target& target : request->targets) {
      target.shard->SetFailed(bytes.status());
      Settled(request, bytes.status());
    }
    return;
  }
  request->charge = quota_->Take(HostQuota::Way::kIn, request->session, request->total_bytes);
  request->array.data = *std::move(bytes);
  request->array.exclusive = request->targets.size() == 1;
  for (const Request::Target& target : request->targets) {
    Place(arrays_, target.shard, request->array, target.memory_kind,
          [this, request](const absl::Status& status) { Settled(request, status); });
  }
  request->array.data = Bytes();
}

void Puts::Settled(const RequestRef& request, const absl::Status& status) {
  if (request->status.ok()) request->status = status;
  if (--request->unsettled > 0) return;
  request->charge = nullptr;
  if (quota_->Limits(request->session)) lanes_->MoreRoom();
  context_->outbox().Done(request->op, request->status);
  context_->recorder().Instant(
      trace::Kind::kTransfer, "transfers", "put",
      {.flow = request->op, .bytes = static_cast<int64_t>(request->total_bytes), .session = request->session.v});
}

}  // namespace pw::worker
