// Reports of a cluster (pathways/session), under the names by which the controller knows them.
#pragma once

#include "pathways/session/reports.h"

namespace pw::controller {

using session::ClusterTrace;
using session::DrainReport;
using session::SliceState;
using session::SuspendReport;

}  // namespace pw::controller
