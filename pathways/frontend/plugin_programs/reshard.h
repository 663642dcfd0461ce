// The plugin program that copies its arguments to other shardings.
//
// {"reshardRequest": {"donateInput": bool, "inSharding": [S...], "outSharding": [S...]}} with S = {"devices": {"device_ids": [...]},
// "xla_hlo_sharding": base64 of an xla.OpSharding, "memory_kind"?: string}: the results are the arguments, copied to the output shardings.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeReshardProgram(const JsonObject& request);

}  // namespace pw::frontend
