// RetiredRuns: records the runs that are over on this host. The runtime drops late messages for them, instead of holding them as
// messages of runs that have not started yet.
//
// Coordinators number their runs, and name their oldest live run in each start message; the runs before it take no memory here.
// Pure. Strand-confined.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/dataflow/graph/ids.h"
#include "pathways/dataflow/progress/sequence_set.h"

namespace pw::dataflow {

class RetiredRuns {
 public:
  void Add(RunId run) { by_coordinator_[run.coordinator].Insert(run.sequence); }
  void AddBefore(HostId coordinator, uint64_t oldest_live) {
    if (oldest_live > 0) by_coordinator_[coordinator].InsertUpTo(oldest_live - 1);
  }
  // Retires all runs of this coordinator, later ones included.
  void AddAll(HostId coordinator) { by_coordinator_[coordinator].InsertUpTo(UINT64_MAX); }
  // Returns all coordinators that have had a run here, ascending.
  std::vector<HostId> Coordinators() const { return SortedKeys(by_coordinator_); }
  bool Contains(RunId run) const {
    auto it = by_coordinator_.find(run.coordinator);
    return it != by_coordinator_.end() && it->second.Contains(run.sequence);
  }

 private:
  absl::flat_hash_map<HostId, SequenceSet> by_coordinator_;
};

}  // namespace pw::dataflow
