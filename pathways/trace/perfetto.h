// Converts recordings to the trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open. Each recording becomes a
// process, each track a thread, and flows become arrows.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/trace/recorder.h"

namespace pw::trace {

// Returns the JSON text. Times count from the earliest event. `to_wall`: the wall time less that of the recordings' clock; if it is given, the text
// says when the earliest event began. REQUIRES: the recordings share one clock. Pure.
std::string ToPerfettoJson(absl::Span<const Recording> recordings, absl::Span<const std::string> silent_hosts = {},
                           std::optional<absl::Duration> to_wall = std::nullopt);

}  // namespace pw::trace
