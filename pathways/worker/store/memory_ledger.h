// MemoryLedger: how much of each device's memory each session holds.
//
// The ledger counts the memory of arrays, from the moment a command gets memory for its results until nothing refers to them any
// more (running commands included). It decides nothing; memory_gate.h does.
//
// Invariants:
//   ML-1  used(d) is the sum of all sessions' holdings on device d
//   ML-2  a shard's charge is given back exactly once
// Lives on the worker's strand; shared with the shards, which may outlive the rest of a worker.
#pragma once

#include <cstdint>
#include <map>
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

  // Counts contents moved to host memory; negative: moved back.
  void MovedOut(int64_t bytes) { moved_out_bytes_ += bytes; }
  int64_t moved_out_bytes() const { return moved_out_bytes_; }

  int64_t used(int device) const { return devices_[device].used; }
  int64_t peak(int device) const { return devices_[device].peak; }
  int64_t limit() const { return limit_bytes_; }
  std::map<uint64_t, int64_t> UsedBySession(int device) const;
  // "session 3 holds 512 MiB, session 5 holds 12 MiB": the largest first.
  std::string Holders(int device) const;
  // Counts Refund calls; a command that waits for memory checks again when the count has changed.
  uint64_t refunds() const { return refunds_; }

 private:
  struct Device {
    int64_t used = 0;
    int64_t peak = 0;
    absl::flat_hash_map<SessionId, int64_t> by_session;
  };
  std::vector<Device> devices_;
  const int64_t limit_bytes_;
  uint64_t refunds_ = 0;
  int64_t moved_out_bytes_ = 0;
};

// "1.5 MiB": for messages.
std::string HumanBytes(int64_t bytes);

}  // namespace pw::worker
