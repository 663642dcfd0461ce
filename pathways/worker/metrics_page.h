// A worker's own metrics for Prometheus (docs/operators.md). Pure.
#pragma once

#include <string>

#include "pathways/v1/housekeeping.pb.h"

namespace pw::worker {

struct MetricsPage {
  std::string host;
  std::string island;
  bool joined = false;  // whether it is part of a cluster now; if not, the reports are empty
  pathways::v1::MetricsReport metrics;
  pathways::v1::HealthReport health;

  std::string Text() const;
};

}  // namespace pw::worker
