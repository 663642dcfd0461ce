#include "pathways/worker/housekeeping/report_batch.h"

#include <utility>

namespace pw::worker {

void ReportBatch::Add(HostId from, pathways::v1::Report report, absl::Time now) {
  if (empty()) oldest_ = now;
  latest_ = now;
  heard_.insert(from);
  report.set_host(from.v);
  *frame_.add_reports() = std::move(report);
}

pathways::v1::Joined ReportBatch::Take() {
  pathways::v1::Joined frame;
  frame.Swap(&frame_);
  heard_.clear();
  return frame;
}

}  // namespace pw::worker
