#include "pathways/worker/store/spill.h"

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pathways/base/status_macros.h"

namespace pw::worker {
namespace {

// The buffer of a shard that was moved out: its contents in host memory, dense and row-major.
class HostBuffer : public device::DeviceBuffer {
 public:
  HostBuffer(device::DeviceRuntime* runtime, const device::DeviceBuffer& from, Bytes data)
      : runtime_(runtime),
        dtype_(from.dtype()),
        dims_(from.dims()),
        device_(from.device()),
        kind_(from.memory_kind()),
        data_(std::move(data)) {}

  device::DType dtype() const override { return dtype_; }
  const device::Dims& dims() const override { return dims_; }
  int device() const override { return device_; }
  const std::string& memory_kind() const override { return kind_; }
  Future<Unit> Ready() override { return Future<Unit>::Ready(Unit()); }
  Future<Bytes> ToHost() override { return Future<Bytes>::Ready(data_); }
  Future<Unit> CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void>) override {
    std::copy_n(data_.data(), std::min(size, data_.size()), out);
    return Future<Unit>::Ready(Unit());
  }
  absl::StatusOr<Bytes> HostView() override { return data_; }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> CopyTo(int device, absl::string_view memory_kind) override {
    return runtime_->FromHost({data_, dtype_, dims_, std::nullopt, false}, device, memory_kind);
  }

 private:
  device::DeviceRuntime* const runtime_;
  const device::DType dtype_;
  const device::Dims dims_;
  const int device_;
  const std::string kind_;
  const Bytes data_;
};

}  // namespace

// A parked command refers to a shard that it reads twice, from Task::reads and from its body, and once more if it consumes it. If that is
// wrong, the shard stays or goes too early, which only costs time.
Spill::References Spill::OfParked() const {
  References references;
  arrays_->hazards().ForEachParked([&](const Hazards::Task& task) {
    for (const ShardRef& shard : task.reads) references[shard.get()] += 2;
    for (const ShardRef& shard : task.consumes) references[shard.get()] += 1;
  });
  return references;
}

bool Spill::IsIdle(const ShardRef& shard, int64_t known) const {
  if (shard->state() != Shard::State::kReady || shard->bytes() == 0 || shard->stays || shard->shared()) return false;
  if (shard.use_count() != shard->names + known) return false;  // each name is one reference
  const auto& memories = arrays_->runtime()->devices()[static_cast<size_t>(shard->device())].memories;
  const std::string& kind = shard->buffer()->memory_kind();
  return kind.empty() || memories.empty() || kind == memories.front().kind;
}

// Returns idle shards: first those no parked command waits for, then the others; least recently used first.
std::vector<Shard*> Spill::Idle(int device, const References& parked) const {
  std::vector<Shard*> idle;  // shards with several names appear several times
  auto waiting = [&](const Shard* shard) {
    auto it = parked.find(shard);
    return it == parked.end() ? int64_t{0} : it->second;
  };
  arrays_->store().ForEach([&](const ShardRef& shard) {
    if (shard->device() == device && IsIdle(shard, waiting(shard.get()))) idle.push_back(shard.get());
  });
  std::sort(idle.begin(), idle.end(), [&](const Shard* a, const Shard* b) {
    return std::tuple(waiting(a) > 0, a->last_used, a) < std::tuple(waiting(b) > 0, b->last_used, b);
  });
  idle.erase(std::unique(idle.begin(), idle.end()), idle.end());
  return idle;
}

bool Spill::MakeRoom(int device, int64_t bytes) {
  if (!on_) return false;
  std::vector<Shard*> idle = Idle(device, OfParked());
  int64_t sum = 0;
  size_t enough = 0;
  while (enough < idle.size() && sum < bytes) sum += idle[enough++]->bytes();
  if (sum < bytes) return false;
  idle.resize(enough);
  for (Shard* shard : idle) MoveOut(shard->shared_from_this());
  return true;
}

void Spill::MoveOut(const ShardRef& shard) {
  arrays_->Await(shard->buffer()->ToHost(), [this, shard](const absl::StatusOr<Bytes>& bytes) {
    shard->stays = !bytes.ok();
    const References parked = OfParked();
    auto it = parked.find(shard.get());
    constexpr int64_t kThisFunction = 1;
    if (!bytes.ok() || !IsIdle(shard, kThisFunction + (it == parked.end() ? 0 : it->second))) return;
    shard->MoveOut(std::make_unique<HostBuffer>(arrays_->runtime(), *shard->buffer(), *bytes));
    ++moved_out_;
  });
}

absl::Status Spill::BringBack(Shard& shard) {
  PW_ASSIGN_OR_RETURN(auto buffer, shard.buffer()->CopyTo(shard.device(), shard.buffer()->memory_kind()));
  shard.MoveBack(std::move(buffer));
  ++moved_back_;
  return absl::OkStatus();
}

}  // namespace pw::worker
