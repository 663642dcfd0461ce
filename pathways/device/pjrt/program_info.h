// What there is to know about a compiled program, asked of the plugin once.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

absl::StatusOr<ProgramInfo> ReadProgramInfo(const Client& client, PJRT_LoadedExecutable* loaded, PJRT_Executable* executable);

// The optimized program as a serialized xla.HloModuleProto.
absl::StatusOr<std::string> OptimizedModule(const Api& api, PJRT_Executable* executable);

// Parameters, outputs, shardings and donations from a serialized xla.HloModuleProto. `default_kind` names the memory of values
// that are not in host memory. INVALID_ARGUMENT if it does not parse.
absl::Status ReadModule(const std::string& module, const std::string& default_kind, ProgramInfo* info);

}  // namespace pw::device::pjrt
