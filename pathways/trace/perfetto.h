// Recordings as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open: the trace event format, one process of the picture for
// each recording, one thread for each track, arrows along flows.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "pathways/trace/recorder.h"

namespace pw::trace {

// Times count from the earliest event. The recordings are on one clock already. Pure.
std::string ToPerfettoJson(absl::Span<const Recording> recordings, absl::Span<const std::string> silent_hosts = {});

}  // namespace pw::trace
