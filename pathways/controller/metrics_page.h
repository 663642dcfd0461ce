// The controller's metrics for Prometheus (docs/operators.md). Pure: they come from the status report.
#pragma once

#include <string>

#include "pathways/controller/status_report.h"

namespace pw::controller {

std::string ToMetricsPage(const StatusReport& report);

}  // namespace pw::controller
