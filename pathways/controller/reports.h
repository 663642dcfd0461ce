// Aliases in the controller's namespace for the reports of a cluster (pathways/session).
#pragma once

#include "pathways/session/reports.h"

namespace pw::controller {

using session::ClusterTrace;
using session::DrainReport;
using session::SliceState;
using session::SuspendReport;

}  // namespace pw::controller
