// ReportBatch: the reports of a group's hosts since the last frame that this host sent for the group.
//
// Hosts that run the same program end their parts together, so a frame is complete when each host of the group has reported once. The owner
// limits the wait for hosts that had no part (oldest, latest).
//
// Pure.
//
// Invariants:
//   JR-1  every added report is in exactly one frame
//   JR-2  the reports of one host stay in the order in which they were added
#pragma once

#include <cstddef>
#include <set>

#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

class ReportBatch {
 public:
  // Sets the number of hosts in the group. 0: any report makes the frame complete.
  void SetGroup(size_t hosts) { group_ = hosts; }
  void Add(HostId from, pathways::v1::Report report, absl::Time now);
  // Returns the frame and begins an empty one.
  pathways::v1::Joined Take();

  bool empty() const { return heard_.empty(); }
  bool complete() const { return !empty() && heard_.size() >= group_; }
  // Time of the first and the last Add. REQUIRES: !empty().
  absl::Time oldest() const { return oldest_; }
  absl::Time latest() const { return latest_; }

 private:
  size_t group_ = 0;
  pathways::v1::Joined frame_;
  std::set<HostId> heard_;
  absl::Time oldest_;
  absl::Time latest_;
};

}  // namespace pw::worker
