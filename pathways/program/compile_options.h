// Compile options as clients write them: where the program is to run, the canonical form in which they are sent to workers, and the options
// that a stranger must not set.
//
// The bytes of the options are part of the key of compile caches, whose entries are shared by all devices of a kind. So the bytes
// name no devices, and equal options give equal bytes. (Clients write map entries in an order that differs from run to run.)
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/base/ids.h"
#include "xla/compile_options.pb.h"

namespace pw::program {

std::string CanonicalCompileOptions(xla::CompileOptionsProto options);

// The devices of a program, as its options name them.
struct DeviceGrid {
  int num_replicas = 1;
  int num_partitions = 1;
  std::vector<DeviceId> devices;  // replica-major; empty: not said
};

// INVALID_ARGUMENT if the numbers are absurd, or the device assignment is not of that shape.
absl::StatusOr<DeviceGrid> DevicesOf(const xla::ExecutableBuildOptionsProto& options);

// Returns the serialized options of a client whose rights on the hosts are not the worker's, as hosts may have them: numbers, and the texts that are
// known to be harmless.
//
// All other debug options are dropped, and those that can end the process get XLA's default: jax sends these with every program where XLA_FLAGS or a
// folder of CUDA on the client's machine names them, and a newer jax sends new ones. PERMISSION_DENIED, naming the option, for one that a user asks for
// by name (compiler_options), or for an argument of LLVM. INVALID_ARGUMENT: the options cannot be read.
absl::StatusOr<std::string> OptionsOfStranger(absl::string_view options);

}  // namespace pw::program
