// Spill: arrays that nobody uses at present make room on a device that is full: their contents move to host memory, and come back when
// a computation takes them as arguments. Off unless the configuration asks for it.
//
// A shard is idle if it is ready, lies in its device's default memory, and nothing refers to it but its names: no command that has
// come, waits or runs. Where these are not enough, those go too that nothing but parked commands refer to: they come after the one that
// needs the room. The ones that were used longest ago go first. A shard that has gone is what it was to everybody: it is read,
// sent and copied from host memory (its buffer is one that lies there); only an execution needs it back on the device, and asks for
// that room together with the room for its results (Runner::Admit), so that it waits, or fails, as a whole.
//
// The gate turns here when nothing under way could free memory any more (memory_gate.h): what is due to be freed is waited for.
//
// Invariants:
//   SP-1  no array is lost, whatever fails: it stays where it is
//   SP-2  a shard that a command comes to use while it is being copied stays on the device
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "pathways/device/device.h"
#include "pathways/worker/hazards.h"
#include "pathways/worker/memory_gate.h"
#include "pathways/worker/object_store.h"
#include "pathways/worker/shard.h"

namespace pw::worker {

struct Core;

class Spill : public MemoryGate::Spare {
 public:
  // `core` outlives this.
  explicit Spill(Core* core) : core_(core) {}

  void Enable(bool on) { on_ = on; }
  // Begins to move idle arrays of so many bytes off a device. False: there are not so many.
  bool MakeRoom(int device, int64_t bytes) override;
  // The contents are back in the device's memory, or on their way. REQUIRES: shard.moved_out(), and that there is room.
  absl::Status BringBack(Shard& shard);

  uint64_t moved_out() const { return moved_out_; }
  uint64_t moved_back() const { return moved_back_; }

 private:
  using References = absl::flat_hash_map<const Shard*, int64_t>;
  References OfParked() const;
  // `known`: references to it besides its names.
  bool IsIdle(const ShardRef& shard, int64_t known) const;
  std::vector<Shard*> Idle(int device, const References& parked) const;
  void MoveOut(const ShardRef& shard);

  Core* const core_;
  bool on_ = false;
  uint64_t moved_out_ = 0;
  uint64_t moved_back_ = 0;
};

}  // namespace pw::worker
