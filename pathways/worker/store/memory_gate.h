// MemoryGate: decides whether the devices have room for the arrays that a command is about to create.
//
// A command that finds no room waits while any activity may free some: work on devices, transfers, reads that wait for host memory,
// commands that are about to run. When there is none, idle arrays may make room (spill.h). Else the oldest waiting command fails with
// RESOURCE_EXHAUSTED and a list of the holders, and the others check again.
//
// Other parked commands do not count as activity: each waits for such activity or, in the end, for a command that waits here. A read of
// that command's result must not keep it waiting.
//
// Invariants:
//   MG-1  without a limit nothing ever waits
//   MG-2  a waiting command checks again whenever memory was given back or the last activity ended
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/worker/store/hazards.h"
#include "pathways/worker/store/memory_ledger.h"

namespace pw::worker {

class MemoryGate {
 public:
  // Frees memory that is not needed at present.
  class Spare {
   public:
    virtual ~Spare() = default;
    // Begins an activity that frees at least this many bytes. Returns false if it cannot.
    virtual bool MakeRoom(int device, int64_t bytes) = 0;
  };
  // May be null. Outlives this, or is set to null before.
  void SetSpare(Spare* spare) { spare_ = spare; }

  MemoryGate(const MemoryLedger* ledger, Hazards* hazards) : ledger_(ledger), hazards_(hazards) {}

  struct Need {
    int device;
    int64_t bytes;
  };
  enum class Verdict { kRoom, kWait, kNever };
  // kWait: the task is held. kNever: `why` gives the reason.
  Verdict Admit(absl::Span<const Need> needs, const Hazards::TaskRef& task, absl::Status* why);

  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }

  // Begin and End enclose work that may free memory when it ends.
  void Begin() { ++activity_; }
  void End();
  // Lets waiting commands check again if memory was given back. Called when the strand has run empty.
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
  size_t waking_ = 0;         // woken commands that have not yet checked again
  bool last_chance_ = false;  // no activity can free memory: the next command that does not fit fails
  uint64_t seen_refunds_ = 0;
  std::deque<Hazards::TaskRef> waiting_;
};

}  // namespace pw::worker
