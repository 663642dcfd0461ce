// UnseenReports: completions that this host has given to another to send on, kept until the controller says that it has seen them.
//
// The controller's word is one number: it has seen all reports up to that. A later report overtakes no earlier one on the same way, and
// when the way changes, or breaks, or takes too long, whoever owns this takes out all that is kept and brings it straight (Take). Since the
// straight way loses nothing as long as this host counts for anything, what was taken out need not be kept.
//
// From then on the way is in doubt, until the controller has seen the last report that was taken out come by it after all: it was
// slow, then, and not gone.
//
// Pure.
//
// Invariants:
//   UR-1  a report is kept until it has been seen, or was taken out
//   UR-2  whatever number the controller says, no report that is yet to come counts as seen
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

class UnseenReports {
 public:
  // Keeps a copy. Its number, from 1.
  uint64_t Add(const pathways::v1::Done& done, absl::Time now);
  void Seen(uint64_t number);
  // All that is kept, the oldest first.
  std::vector<pathways::v1::Done> Take();
  // Another way: what became of the one before says nothing of it.
  void Trust() { taken_ = 0; }

  bool in_doubt() const { return seen_ < taken_; }
  bool empty() const { return kept_.empty(); }
  // When the oldest was added. REQUIRES: there is one.
  absl::Time oldest() const { return kept_.front().added; }

 private:
  struct Kept {
    uint64_t number;
    absl::Time added;
    pathways::v1::Done done;
  };
  std::deque<Kept> kept_;  // ascending
  uint64_t last_ = 0;      // number given
  uint64_t seen_ = 0;      // and all before it
  uint64_t taken_ = 0;     // the last of those taken out; 0: none of this way
};

}  // namespace pw::worker
