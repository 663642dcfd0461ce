#include "pathways/worker/transfer/placement.h"

#include <memory>
#include <utility>

namespace pw::worker {
namespace {

struct Pending {
  ShardRef shard;
  device::HostArray array;
  std::string memory_kind;
  absl::AnyInvocable<void(const absl::Status&) &&> done;

  void Finish(const absl::Status& status) {
    if (status.ok())
      shard->SetReady();
    else
      shard->SetFailed(status);
    std::move(done)(status);
  }
};

Hazards::Outcome TryPlace(DeviceArrays* arrays, const std::shared_ptr<Pending>& pending, const Hazards::TaskRef& task) {
  const int device = pending->shard->device();
  const int64_t bytes = DeviceBytes(pending->array.dtype, pending->array.dims);
  absl::Status status;
  const MemoryGate::Need need{device, bytes};
  const MemoryGate::Verdict verdict = arrays->memory().Admit({{&need, 1}, pending->shard->session()}, task, &status);
  if (verdict == MemoryGate::Verdict::kWait) return Hazards::Outcome::kWait;
  if (verdict == MemoryGate::Verdict::kRoom) {
    auto buffer = arrays->runtime()->FromHost(std::move(pending->array), device, pending->memory_kind);
    status = buffer.status();
    if (buffer.ok()) {
      const Future<Unit> ready = (*buffer)->Ready();
      pending->shard->SetLive(*std::move(buffer), bytes);
      arrays->AwaitWork(pending->shard->session(), {&device, 1}, ready,
                        [pending](const absl::StatusOr<Unit>& done) { pending->Finish(done.status()); });
      return Hazards::Outcome::kDone;
    }
  }
  pending->Finish(status);
  return Hazards::Outcome::kDone;
}

}  // namespace

void Place(DeviceArrays* arrays, ShardRef shard, device::HostArray array, std::string memory_kind,
           absl::AnyInvocable<void(const absl::Status&) &&> done) {
  auto pending = std::make_shared<Pending>(Pending{std::move(shard), std::move(array), std::move(memory_kind), std::move(done)});
  auto task = std::make_shared<Hazards::Task>();
  task->run = [arrays, pending, weak = std::weak_ptr<Hazards::Task>(task)](const absl::Status&) {
    return TryPlace(arrays, pending, weak.lock());
  };
  arrays->hazards().Submit(std::move(task));
}

}  // namespace pw::worker
