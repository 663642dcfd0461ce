// MemoryGate: decides whether the devices have room for the arrays that a command is about to create, and whether the quota of the
// arrays' user has (accounts.h).
//
// A command that finds no room waits while any activity may free some: work on devices, transfers, reads that wait for host memory,
// commands that are about to run. When there is none, idle arrays may make room (spill.h). Else the oldest waiting command fails with
// RESOURCE_EXHAUSTED and a list of the holders, and the others check again.
//
// Other parked commands do not count as activity: each waits for such activity or, in the end, for a command that waits here. A read of
// that command's result must not keep it waiting.
//
// Quotas. A user who has as much on a device as the quota allows waits for own arrays to be freed; others do not wait for this user. So a
// command that has its turn on the devices, and keeps the commands of others from theirs, waits only for the user's own work on the device.
// That work ends, and began before the command. Contents that were moved out count for the quota, so nothing is moved out for it. Commands
// that wait for a quota may hold host memory: those of a user wait for no more bytes on a device than the quota, and are at most
// kMostAwaited. One more fails.
//
// Invariants:
//   MG-1  without a limit nothing ever waits
//   MG-2  a waiting command checks again whenever memory was given back, the last activity ended, or a user's last work on a device
//   MG-3  a command is admitted only if its user then has no more than the quota, or no more than before
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/worker/store/accounts.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/hazards.h"
#include "pathways/worker/store/memory_ledger.h"

namespace pw::worker {

class MemoryGate {
 public:
  static constexpr int64_t kMostAwaited = 1000;

  // Frees memory that is not needed at present.
  class Spare {
   public:
    virtual ~Spare() = default;
    // Begins an activity that frees at least this many bytes. Returns false if it cannot.
    virtual bool MakeRoom(int device, int64_t bytes) = 0;
  };
  // May be null. Outlives this, or is set to null before.
  void SetSpare(Spare* spare) { spare_ = spare; }

  // All outlive this.
  MemoryGate(const WorkerContext* context, const MemoryLedger* ledger, const Accounts* accounts, Hazards* hazards)
      : context_(context), ledger_(ledger), accounts_(accounts), hazards_(hazards) {}

  struct Need {
    int device;
    int64_t bytes;
    int64_t moved_back = 0;  // of these: contents that come back to the device, for which their user is charged already
  };
  struct Asked {
    absl::Span<const Need> needs;
    SessionId session;          // the owner of the new arrays
    bool keeps_others = false;  // the command has its turn on the devices
  };
  enum class Verdict { kRoom, kWait, kNever };
  // kWait: the task is held. kNever: `why` gives the reason.
  Verdict Admit(const Asked& asked, const Hazards::TaskRef& task, absl::Status* why);
  // Returns whether Admit may answer anything but kRoom.
  bool Limits(SessionId session) const;

  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  struct QuotaWait {
    SessionId session;
    std::string user;
    std::string why;
  };
  // Returns the first commands that wait for quotas, in their order.
  std::vector<QuotaWait> quota_waits() const;

  // Begin and End enclose work that may free memory when it ends.
  void Begin() { ++activity_; }
  void End();
  // Stops to count that much activity, which waits for a quota; a negative number: counts it again. Poll has to follow.
  void SetAside(int64_t activity) { activity_ -= activity; }
  // Notes work on devices for a session whose user has limits. Returns the devices, which the caller passes to EndWork when the work has
  // ended; empty: the user has no limits. Begin and End enclose such work, too.
  using Devices = absl::InlinedVector<int, 4>;
  Devices BeginWork(SessionId session, absl::Span<const int> devices);
  void EndWork(SessionId session, const Devices& devices);
  // Lets waiting commands check again if memory was given back. Called when the strand has run empty.
  void Poll();
  // Makes the next Poll let them check in any case: quotas have changed.
  void Recheck() { recheck_ = true; }

 private:
  struct Shortage {
    int device = 0;
    int64_t needed = 0;
    int64_t used = 0;
    int64_t limit = 0;
    const Account* account = nullptr;  // null: the device itself is full
  };
  struct Waiting {
    Hazards::TaskRef task;
    SessionId session;
    std::optional<Need> over_quota;  // set if it waits for the quota
  };

  struct Awaited {
    int64_t commands = 0;
    int64_t bytes = 0;
  };

  std::optional<Shortage> FindShortage(const Asked& asked) const;
  bool HasWork(const Account& account, int device) const;
  bool MayWait(const Shortage& shortage) const;
  bool MayEnd(const Shortage& shortage, bool keeps_others) const;
  std::string Text(const Shortage& shortage) const;
  void Wait(const Asked& asked, const Shortage& shortage, const Hazards::TaskRef& task);
  bool Idle() const;
  void WakeAll();

  const WorkerContext* const context_;
  const MemoryLedger* const ledger_;
  const Accounts* const accounts_;
  Hazards* const hazards_;
  Spare* spare_ = nullptr;
  int64_t activity_ = 0;
  absl::flat_hash_map<std::pair<SessionId, int>, int64_t> work_;  // on each device; without zeros
  size_t waking_ = 0;                                             // woken commands that have not yet checked again
  bool last_chance_ = false;  // no activity can free memory: the next command that does not fit fails
  bool recheck_ = false;
  uint64_t seen_refunds_ = 0;
  std::deque<Waiting> waiting_;
  absl::flat_hash_map<std::pair<SessionId, int>, Awaited> awaited_;  // by those of `waiting_` that wait for quotas, on each device
};

}  // namespace pw::worker
