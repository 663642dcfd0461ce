// LeaseLength: how many turns of a loop a lease has (v1.LoopLease). A lease is a gang, so the devices belong to the loop until its last turn has
// been launched. It therefore has as many turns as are expected to take no longer than a limit.
//
// The duration of a turn is measured by the loop's leader, from one predicate to the next; it includes the time in which no device works. Lengths
// are powers of two, so that there are few: each is an executable for the scheduler, which learns its cost.
//
// Pure.
//
// Invariants:
//   LL-1  a lease has at least one turn, at most `most`, and at most twice as many as the one before it
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pathways/base/ids.h"

namespace pw::controller {

class LeaseLength {
 public:
  // A turn is expected to take `default_turn_ns` until one was measured.
  LeaseLength(int64_t limit_ns, int64_t default_turn_ns, uint64_t most);

  struct Lease {
    uint64_t turns = 0;
    ExecutableId id;  // the key of its measured cost
  };
  // Returns the next lease.
  Lease Next(absl::FunctionRef<ExecutableId()> new_id);
  // Notes the measured duration of a turn. Ignores numbers that are not positive.
  void Learn(double turn_ns);

  // Returns the ids of all leases so far.
  std::vector<ExecutableId> ids() const;

 private:
  const int64_t limit_ns_;
  const uint64_t most_;
  double turn_ns_;
  bool measured_ = false;
  uint64_t turns_ = 0;             // of the latest lease; 0: there was none
  std::vector<ExecutableId> ids_;  // by the logarithm of the length; 0: no lease had it
};

}  // namespace pw::controller
