// Spill: frees device memory by moving the contents of idle arrays to host memory, and back when a computation takes them as arguments. Off
// unless the configuration enables it.
//
// A shard is idle if it is ready, lies in its device's default memory, and only its names refer to it: no arrived, waiting or running
// command. If these are not enough, shards that only parked commands refer to are moved too: those commands come after the one that needs
// the room. Least recently used shards go first. Moving a shard out changes nothing for other users: it is read, sent and copied from host
// memory. Only an execution needs it on the device; it requests that room together with the room for its results (ProgramExecutor::Admit), so that
// it waits or fails as a whole.
//
// The memory gate calls MakeRoom when no activity can free memory any more (memory_gate.h); memory that is due to be freed is waited for.
//
// Invariants:
//   SI-1  no failure loses an array: it stays in place
//   SI-2  a shard that a command starts to use during the copy stays on the device
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "pathways/device/device.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/hazards.h"
#include "pathways/worker/store/memory_gate.h"
#include "pathways/worker/store/object_store.h"
#include "pathways/worker/store/shard.h"

namespace pw::worker {

class Spill : public MemoryGate::Spare {
 public:
  // Makes room for the memory gate of `arrays`, which outlive this.
  explicit Spill(DeviceArrays* arrays) : arrays_(arrays) { arrays->memory().SetSpare(this); }
  ~Spill() override { arrays_->memory().SetSpare(nullptr); }
  Spill(const Spill&) = delete;

  void Enable(bool on) { on_ = on; }
  // Begins to move idle arrays of at least this many bytes off a device. Returns false if there are not enough.
  bool MakeRoom(int device, int64_t bytes) override;
  // Starts to copy the contents back to the device. REQUIRES: shard.moved_out(), and there is room.
  absl::Status BringBack(Shard& shard);

  uint64_t moved_out() const { return moved_out_; }
  uint64_t moved_back() const { return moved_back_; }

 private:
  using References = absl::flat_hash_map<const Shard*, int64_t>;
  References OfParked() const;
  // `known`: number of references to it besides its names.
  bool IsIdle(const ShardRef& shard, int64_t known) const;
  std::vector<Shard*> Idle(int device, const References& parked) const;
  void MoveOut(const ShardRef& shard);

  DeviceArrays* const arrays_;
  bool on_ = false;
  uint64_t moved_out_ = 0;
  uint64_t moved_back_ = 0;
};

}  // namespace pw::worker
