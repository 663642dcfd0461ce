// The plugin programs that store arrays in files and read them (pathwaysutils, Orbax). The hosts do both: Session::SaveArrays,
// LoadArrays.
//
// {"bulk_persistence_write_request": {"write_requests": [R...]}}: stores the arguments, one for each R, as zarr arrays. The run ends when they
// are on the disk.
// {"bulk_persistence_read_request": {"read_requests": [R...]}}: the outputs are the stored arrays.
// R = {"b64_location": base64 of a folder, "b64_name": base64, "b64_hlo_sharding_string": base64 of an xla.OpSharding, "devices":
// {"device_ids": [...]}, "shape": dims (write) or {"xla_primitive_type_str": "F32", "dimensions": dims} (read)}. The array's own folder is
// location/name. All R of a program have one location.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeWriteProgram(const JsonObject& request);
absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeReadProgram(const JsonObject& request);

}  // namespace pw::frontend
