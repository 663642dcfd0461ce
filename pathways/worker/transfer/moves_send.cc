// Moves: the sending side.
#include <optional>
#include <utility>
#include <vector>

#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/shared/shared_copy.h"
#include "pathways/worker/transfer/host_copies.h"
#include "pathways/worker/transfer/host_views.h"
#include "pathways/worker/transfer/moves_operation.h"

namespace pw::worker {
namespace v1 = pathways::v1;

// A region of a row-major array in host memory. Moves::Outgoing contains it and other sources name Outgoing, so it is not in an anonymous
// namespace.
struct OutgoingRegion {
  int width;
  Dims dims, start, size;
  size_t bytes() const { return static_cast<size_t>(*buffers::NumElements(size) * width); }
  bool whole() const { return size == dims; }
  // Returns the region in place, if it is contiguous.
  std::optional<Bytes> In(const Bytes& array) const {
    const std::optional<int64_t> at = buffers::ContiguousStart(dims, start, size);
    if (!at.has_value()) return std::nullopt;
    return array.Slice(static_cast<size_t>(*at * width), bytes());
  }
  void CopyTo(uint8_t* out, const Bytes& array) const {
    buffers::CopyDenseBox(width, size, array.data(), dims, start, out, size, Dims(size.size(), 0));
  }
};

namespace {

// Copies the region alone, dense; to shared memory if wanted and available. Any thread.
absl::StatusOr<Bytes> Alone(net::SharedMemoryFactory factory, SessionId session, const OutgoingRegion& region, const Bytes& array,
                            bool shared) {
  const std::optional<Bytes> stretch = region.In(array);
  if (shared && stretch.has_value()) {
    if (absl::StatusOr<Bytes> copy = net::SharedCopy(factory, *stretch, session.v); copy.ok()) return *std::move(copy);
  } else if (shared) {
    if (absl::StatusOr<net::SharedMemory> memory = factory.Create(region.bytes(), session.v); memory.ok()) {
      region.CopyTo(memory->data(), array);
      return std::move(*memory).Freeze();
    }
  }
  PW_ASSIGN_OR_RETURN(AlignedBytes dense, TryAllocateHostBuffer(static_cast<int64_t>(region.bytes())));
  region.CopyTo(dense.data(), array);
  return std::move(dense).Freeze();
}

}  // namespace

struct Moves::Outgoing {
  OperationRef operation;
  uint64_t transfer;
  HostId to;
  ShardRef shard;
  OutgoingRegion region;
  std::weak_ptr<Hazards::Task> task;
  bool view_tried = false;
  bool started = false;
};

void Moves::Send(const OperationRef& operation, const v1::Move::Send& send) {
  ++operation->left;
  ShardRef shard = arrays_->store().FindOrFailed(ArrayId(send.array()), send.shard());
  auto task = std::make_shared<Hazards::Task>();
  task->reads = {shard};
  auto out = std::make_shared<Outgoing>(Outgoing{operation,
                                                 send.transfer(),
                                                 HostId(send.to_host()),
                                                 std::move(shard),
                                                 {0, {}, ToDims(send.region().start()), ToDims(send.region().size())},
                                                 task});
  task->run = [this, out](const absl::Status& input) { return StartSend(out, input); };
  arrays_->hazards().Submit(std::move(task));
}

Hazards::Outcome Moves::StartSend(const OutgoingRef& out, const absl::Status& input) {
  if (out->started) return Hazards::Outcome::kDone;
  if (!input.ok()) {
    FailSend(out, input);
    return Hazards::Outcome::kDone;
  }
  OutgoingRegion& region = out->region;
  region.width = buffers::HostBytes(out->shard->buffer()->dtype());
  region.dims = out->shard->buffer()->dims();
  if (!buffers::Contains(region.dims, region.start, region.size)) {
    FailSend(out, absl::InvalidArgumentError("a region to send lies outside its shard"));
    return Hazards::Outcome::kDone;
  }
  if (host_memory_->copy_pool() == nullptr || out->view_tried || region.bytes() < kViewBytes) {
    SendCopy(out);
    return Hazards::Outcome::kDone;
  }
  out->view_tried = true;
  ReadInPlace(context_, arrays_, out->task.lock(), out->shard, [this, out](absl::StatusOr<Bytes> view) {
    if (view.ok()) SendView(out, *view);
  });
  return Hazards::Outcome::kWait;
}

// Sends a contiguous region in place if it goes through a connection; otherwise copies the region on the pool.
void Moves::SendView(const OutgoingRef& out, const Bytes& view) {
  out->started = true;
  const bool shared = transfers_->TakesShared(out->to) && out->region.bytes() >= net::SharedMemoryFactory::kWorthwhileBytes;
  const std::optional<Bytes> stretch = shared ? std::nullopt : out->region.In(view);
  if (stretch.has_value()) return Hand(out, *stretch, /*in_place=*/true);
  arrays_->Await(CopyAside(out, view, shared), [this, out](const absl::StatusOr<Bytes>& region) { Hand(out, region); });
}

Future<Bytes> Moves::CopyAside(const OutgoingRef& out, const Bytes& view, bool shared) {
  Future<Bytes> made;
  Future<Bytes>& copy = out->region.whole() ? out->operation->copies[out->shard.get()] : made;
  if (copy.valid()) return copy;
  Promise<Bytes> promise;
  copy = promise.future();
  host_memory_->copy_pool()->Post(
      [factory = host_memory_->shared(), session = out->operation->session, region = out->region, view, shared,
       promise = std::move(promise)]() mutable { promise.Set(Alone(factory, session, region, view, shared)); });
  return copy;
}

// Sends from a copy of the whole shard in host memory, made by the runtime.
void Moves::SendCopy(const OutgoingRef& out) {
  out->started = true;
  const bool shared = transfers_->TakesShared(out->to);
  Future<Bytes> copy;
  if (shared && out->region.whole() && !out->operation->copies[out->shard.get()].valid()) {
    copy = out->operation->copies[out->shard.get()] =
        ToSharedHost(&host_memory_->shared(), out->operation->session, out->shard->buffer(), out->region.bytes());
  } else {
    copy = HostCopy(out->operation, out->shard);
  }
  arrays_->Await(copy, [this, out, shared](const absl::StatusOr<Bytes>& bytes) {
    if (!bytes.ok())
      return WhyFailed(out->shard, bytes.status(), [this, out](const absl::Status& error) { FailSend(out, error); });
    if (out->region.whole()) return Hand(out, bytes);
    Hand(out, Alone(host_memory_->shared(), out->operation->session, out->region, *bytes,
                    shared && out->region.bytes() >= net::SharedMemoryFactory::kWorthwhileBytes));
  });
}

// `in_place`: the region is the device's memory, not a copy.
void Moves::Hand(const OutgoingRef& out, const absl::StatusOr<Bytes>& region, bool in_place) {
  if (!region.ok()) return FailSend(out, region.status());
  const auto bytes = static_cast<int64_t>(region->size());
  out->operation->bytes += bytes;
  HostQuota::Charge charge = in_place ? nullptr : quota_->Take(HostQuota::Way::kBetween, out->operation->session, bytes);
  transfers_->Send(out->to, out->transfer, out->operation->session, *region,
                   [operation = out->operation, charge = std::move(charge)](const absl::Status& sent) { operation->Settled(sent); });
}

void Moves::FailSend(const OutgoingRef& out, const absl::Status& error) {
  transfers_->SendFailed(out->to, out->transfer, error);
  out->operation->Settled(error);
}

}  // namespace pw::worker
