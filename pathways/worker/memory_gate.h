// The memory gate: whether there is room on the devices for what a command is about to make.
//
// A command that finds no room waits while anything is under way that may free some: work on devices, transfers, reads that wait for host
// memory, commands that are about to run. Once nothing is, idle arrays may make room (spill.h); else the oldest waiting command fails
// with RESOURCE_EXHAUSTED and the list of holders, and the others look again.
//
// Other parked commands are not under way: they wait for something that is, or, in the end, for a command that waits here; a read of its
// result must not keep it waiting.
//
// Invariants:
//   MG-1  without a limit nothing ever waits
//   MG-2  a waiting command is looked at again whenever memory was given back or the last activity ended
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/worker/hazards.h"
#include "pathways/worker/memory_ledger.h"

namespace pw::worker {

class MemoryGate {
 public:
  // Who can have memory given back that nobody needs at present.
  class Spare {
   public:
    virtual ~Spare() = default;
    // Begins an activity that frees so many bytes, or more. False: it cannot.
    virtual bool MakeRoom(int device, int64_t bytes) = 0;
  };
  // May be null. Outlives this.
  void SetSpare(Spare* spare) { spare_ = spare; }

  MemoryGate(const MemoryLedger* ledger, Hazards* hazards) : ledger_(ledger), hazards_(hazards) {}

  struct Need {
    int device;
    int64_t bytes;
  };
  enum class Verdict { kRoom, kWait, kNever };
  // kWait has held the task; kNever explains itself in `why`.
  Verdict Admit(absl::Span<const Need> needs, const Hazards::TaskRef& task, absl::Status* why);

  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }

  // Work that may free memory when it ends.
  void Begin() { ++activity_; }
  void End();
  // Lets waiting commands look again if memory was given back. Called when the strand has run empty.
  void Poll();

 private:
  void Wait(const Hazards::TaskRef& task);
  bool Fits(absl::Span<const Need> needs, int* device) const;
  bool Idle() const;
  void WakeAll();

  const MemoryLedger* const ledger_;
  Hazards* const hazards_;
  Spare* spare_ = nullptr;
  int64_t activity_ = 0;
  size_t waking_ = 0;         // commands that look again in this turn and have not yet
  bool last_chance_ = false;  // nothing is under way: the next command that does not fit fails
  uint64_t seen_refunds_ = 0;
  std::deque<Hazards::TaskRef> waiting_;
};

}  // namespace pw::worker
