// The plugin program with which the pathways package waits for the effects of programs (python/pathways/_program_tokens.py): {"effectsRequest": {}}.
//
// Compiling it ends when all runs so far have that have effects, or with the first failure among them that has not been told. It has no result.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/json.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeEffectsProgram(const JsonObject& request);

}  // namespace pw::frontend
