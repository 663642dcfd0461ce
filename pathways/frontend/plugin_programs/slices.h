// The plugin program by which the pathways package asks for virtual slices (python/pathways/_client/slices.py).
//
// {"sliceRequest": {"add": {"count": n, ...}}} or {"await": {"slice": n, "seconds": s}} or {"release": {"slice": n}}. Compiling it carries
// out the request; "await" is answered when the slice no longer waits, or after so many seconds. Its one result is the slice's state as
// JSON text, in an array of bytes; of "release" it is {}.
//
// "add" understands count, shape, platform, kind, island, beside (a slice), memory_per_device, hosts ("any", "spread", "pack") and
// exclusive. All but count are optional, and so is count if there is a shape.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "pathways/frontend/plugin_programs/json.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"

namespace pw::frontend {

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeSliceProgram(const JsonObject& request);

}  // namespace pw::frontend
