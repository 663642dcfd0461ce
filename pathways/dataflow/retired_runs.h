// RetiredRuns: which runs are over here, so that what still arrives for them is dropped and not taken for something early.
//
// Coordinators number their runs, and say with each start which is the oldest that still lives; runs before it need no memory of
// their own. Pure. Strand-confined.
#pragma once

#include "absl/container/flat_hash_map.h"
#include "pathways/dataflow/ids.h"
#include "pathways/dataflow/progress/sequence_set.h"

namespace pw::dataflow {

class RetiredRuns {
 public:
  void Add(RunId run) { by_coordinator_[run.coordinator].Insert(run.sequence); }
  void AddBefore(HostId coordinator, uint64_t oldest_live) {
    if (oldest_live > 0) by_coordinator_[coordinator].InsertUpTo(oldest_live - 1);
  }
  // Nothing of that coordinator lives any more, or ever will.
  void AddAll(HostId coordinator) { by_coordinator_[coordinator].InsertUpTo(UINT64_MAX); }
  bool Contains(RunId run) const {
    auto it = by_coordinator_.find(run.coordinator);
    return it != by_coordinator_.end() && it->second.Contains(run.sequence);
  }

 private:
  absl::flat_hash_map<HostId, SequenceSet> by_coordinator_;
};

}  // namespace pw::dataflow
