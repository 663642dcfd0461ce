// MemoryLedger: how much of each device's memory each session holds.
//
// The ledger counts the memory of arrays, from the moment a command gets memory for its results until nothing refers to them any
// more (running commands included). Contents that were moved out of a device (spill.h) are counted apart, until they are back or freed.
// The ledger decides nothing; memory_gate.h does.
//
// Invariants:
//   ML-1  used(d) is the sum of all sessions' holdings on device d
//   ML-2  a shard's charge is given back exactly once
// Lives on the worker's strand; shared with the shards, which may outlive the rest of a worker.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/ids.h"

namespace pw::worker {

class MemoryLedger {
 public:
  // `limit_bytes` is per device; 0: none.
  MemoryLedger(int devices, int64_t limit_bytes) : devices_(devices), limit_bytes_(limit_bytes) {}

  void Charge(int device, SessionId session, int64_t bytes);
  void Refund(int device, SessionId session, int64_t bytes);

  // Counts contents moved to host memory; negative: moved back, or freed there.
  void MovedOut(int device, SessionId session, int64_t bytes);
  int64_t moved_out_bytes() const { return moved_out_bytes_; }

  int64_t used(int device) const { return devices_[device].used; }
  int64_t peak(int device) const { return devices_[device].peak; }
  int64_t limit() const { return limit_bytes_; }
  int devices() const { return static_cast<int>(devices_.size()); }
  std::map<uint64_t, int64_t> UsedBySession(int device) const;
  // Returns the bytes that these sessions hold on the device or have moved out of it.
  int64_t HeldBy(int device, const std::set<SessionId>& sessions) const;
  // Returns whether the session holds anything, on any device or moved out of it.
  bool Holds(SessionId session) const;
  // Returns the bytes that all sessions hold on the devices or have moved out of them.
  int64_t charged_bytes() const;

  // "session 3 holds 512 MiB, session 5 holds 12 MiB": the largest first.
  std::string Holders(int device) const;
  // The same for some sessions, with what they have moved out.
  std::string HoldersAmong(int device, const std::set<SessionId>& sessions) const;
  // Counts memory that was given back; a command that waits for memory checks again when the count has changed.
  uint64_t refunds() const { return refunds_; }

 private:
  struct Holding {
    int64_t used = 0;
    int64_t moved_out = 0;
  };
  struct Device {
    int64_t used = 0;
    int64_t peak = 0;
    absl::flat_hash_map<SessionId, Holding> by_session;  // without empty ones
  };
  static void ForgetIfEmpty(Device& device, SessionId session);

  std::vector<Device> devices_;
  const int64_t limit_bytes_;
  uint64_t refunds_ = 0;
  int64_t moved_out_bytes_ = 0;
};

// "1.5 MiB": for messages.
std::string HumanBytes(int64_t bytes);

}  // namespace pw::worker
