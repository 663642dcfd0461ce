// {"profileRequest": {"traceLocation": folder, "xprofTraceOptions"?: {"traceSessionName"?: string, ...}, ...}}: the first execution
// starts recording the session's requests (trace_recorder.h), the second ends it and writes
// traceLocation/plugins/profile/SESSION/pathways_controller.trace.json; then it may start again. What devices do is not in it.
//
// With xprofTraceOptions a client expects one output, of a type that has no use to it: it gets an array of one empty string.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/json.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeProfileProgram(const JsonObject& request);

}  // namespace pw::frontend
