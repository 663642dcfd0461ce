// GangReport: the data of the timeline on the operators' page (docs/operators.md): computations that ended lately, and those
// under way. Pure: ClusterImpl fills it in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pathways/controller/scheduling/gangs.h"
#include "pathways/controller/scheduling/recent_gangs.h"

namespace pw::controller {

struct GangReport {
  static constexpr size_t kMostUnderway = 512;

  int64_t now_ns = 0;                     // since the controller started, as the times below
  uint64_t after = 0;                     // the last record that the reader knows
  uint64_t last = 0;                      // the newest record's number
  std::vector<RecentGang> ended;          // with greater numbers than `after`
  std::vector<Gangs::Underway> underway;  // in the order of their grants
};

// {"now", "last", "missed": records that are gone already, "programs": [{"id", "name", "devices": [[first, last], ...]}],
//  "ended": [[number, gang, client, program, granted, done, busy, failed], ...], "underway": [[gang, client, program, granted], ...]}
// Times are in microseconds. A program is 0 if it has been forgotten. If recording began after a grant, `granted` is 0 while the
// computation is under way, and an estimate when it has ended.
std::string ToJson(const GangReport& report);

}  // namespace pw::controller
