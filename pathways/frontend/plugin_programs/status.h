// The plugin program with which the pathways package asks for the cluster's state on its own connection, for memory_stats()
// (python/pathways/_patches/devices.py): {"statusRequest": {}}. Its result is the JSON text of `pathways status` (docs/status.md),
// with the field client_array_bytes: the bytes of arrays that have passed this front end to its client and from it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/json.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeStatusProgram(const JsonObject& request);

}  // namespace pw::frontend
