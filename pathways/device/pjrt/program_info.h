// Reads the properties of a compiled program from the plugin, once.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/device/device.h"
#include "pathways/device/pjrt/client.h"

namespace pw::device::pjrt {

absl::StatusOr<ProgramInfo> ReadProgramInfo(const Client& client, PJRT_LoadedExecutable* loaded, PJRT_Executable* executable);

// Returns the optimized program as a serialized xla.HloModuleProto.
absl::StatusOr<std::string> OptimizedModule(const Api& api, PJRT_Executable* executable);
// The same as a serialized xla.HloModuleProtoWithConfig, with the configuration if the plugin gives it.
absl::StatusOr<std::string> OptimizedModuleWithConfig(const Api& api, PJRT_Executable* executable);

// Reads parameters, outputs, shardings and donations from a serialized xla.HloModuleProto. `default_kind` is the memory kind of values that
// are not in host memory. INVALID_ARGUMENT if the module does not parse.
absl::Status ReadModule(const std::string& module, const std::string& default_kind, ProgramInfo* info);

}  // namespace pw::device::pjrt
