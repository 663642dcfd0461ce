// JoinedReports: what the hosts of a group have reported since the last frame that this one sent for all of them.
//
// Hosts that run the same program end their parts together. So the frame is complete when each of the group has reported once; who had no
// part in it is not waited for longer than the owner likes (oldest, latest).
//
// Pure.
//
// Invariants:
//   JR-1  every report that was added is in exactly one frame
//   JR-2  the reports of one host are in the order in which they were added
#pragma once

#include <cstddef>
#include <set>

#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

class JoinedReports {
 public:
  // How many hosts the group has. None: whatever comes is complete.
  void SetGroup(size_t hosts) { group_ = hosts; }
  void Add(HostId from, pathways::v1::Report report, absl::Time now);
  // The frame, and an empty one begins.
  pathways::v1::Joined Take();

  bool empty() const { return heard_.empty(); }
  bool complete() const { return !empty() && heard_.size() >= group_; }
  // When the first and the last were added. REQUIRES: there is one.
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
