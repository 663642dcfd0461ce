// UnackedReports: reports of completions that this host has sent through its speaker, the host that reports for a group of hosts
// (report_path.h). They are kept until the controller acknowledges them with one number: it has seen all reports up to that.
//
// Reports on one path stay in order. When the path changes, breaks or takes too long, the owner takes out all kept reports (Take) and
// sends them to the controller directly. That connection loses nothing while this host is a member, so they need not be kept any longer.
//
// After Take the path is in doubt until the last report taken out reaches the controller through the speaker after all: then the path was
// slow, not broken.
//
// Pure.
//
// Invariants:
//   UR-1  a report is kept until it has been seen or taken out
//   UR-2  no future report counts as seen, even if the controller acknowledges a number that was never assigned
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

class UnackedReports {
 public:
  // Keeps a copy of a report that is sent now. Returns its number, from 1.
  uint64_t Add(const pathways::v1::Done& done, absl::Time now);
  void Seen(uint64_t number);  // drops the copies up to this number: the controller has seen the reports
  // Removes and returns all kept reports, oldest first.
  std::vector<pathways::v1::Done> Take();
  // Ends the doubt, which concerned the previous path: the path has changed.
  void Trust() { taken_ = 0; }

  bool in_doubt() const { return seen_ < taken_; }  // then the owner sends no report on the path
  bool empty() const { return kept_.empty(); }
  // Time of the oldest report. REQUIRES: !empty().
  absl::Time oldest() const { return kept_.front().added; }

 private:
  struct Kept {
    uint64_t number;
    absl::Time added;
    pathways::v1::Done done;
  };
  std::deque<Kept> kept_;  // ascending
  uint64_t last_ = 0;      // number assigned
  uint64_t seen_ = 0;      // and all before it
  uint64_t taken_ = 0;     // the last report taken out; 0: none on this path
};

}  // namespace pw::worker
