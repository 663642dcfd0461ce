// The plugin program that records a profile of the session.
//
// {"profileRequest": {"traceLocation": folder, "xprofTraceOptions"?: {"traceSessionName"?: string, ...}, ...}}: the first execution starts
// recording the session's requests (trace_recorder.h). The second one ends the recording and writes
// traceLocation/plugins/profile/SESSION/pathways_controller.trace.json; then another may start. The activity of devices is not recorded.
//
// With xprofTraceOptions the client expects one output, which it does not use: it gets an array of one empty string.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeProfileProgram(const JsonObject& request);

}  // namespace pw::frontend
