// The plugin program {"effectsRequest": {}}: the pathways package waits with it for the effects of programs
// (python/pathways/_program/tokens.py).
//
// Compiling it ends when all earlier runs with effects have ended. It fails with the first failure among them that was not reported yet.
// The program has no result.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/json.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeEffectsProgram(const JsonObject& request);

}  // namespace pw::frontend
