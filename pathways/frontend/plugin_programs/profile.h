// The plugin program that records a profile of the session.
//
// {"profileRequest": {"traceLocation": folder, "xprofTraceOptions"?: {"traceSessionName"?: string, ...}, ...}}: the first execution starts
// recording the session's requests (trace_recorder.h), and the hosts (Profiles::StartProfile). The second one ends both and writes, below
// traceLocation/plugins/profile/SESSION, pathways_controller.trace.json and an XSpace for each host, HOST.xplane.pb; then another may start.
// The first execution fails while another recording runs in the cluster.
//
// With xprofTraceOptions the client expects one output, which it does not use: it gets an array of one empty string.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeProfileProgram(const JsonObject& request);

}  // namespace pw::frontend
