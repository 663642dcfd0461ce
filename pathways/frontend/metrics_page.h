// The metrics of a front end for Prometheus (docs/operators.md). Pure.
#pragma once

#include <cstddef>
#include <string>

#include "pathways/frontend/handler.h"
#include "pathways/frontend/session_table.h"

namespace pw::frontend {

// `programs`: the sessions that are open.
std::string ToMetricsPage(size_t programs, const ServedCounts& counts, const HandlerTable& handlers);

}  // namespace pw::frontend
