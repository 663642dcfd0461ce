// Compile options as clients write them: the devices of the program, the canonical form that workers get, and options that hosts
// must not take from strangers.
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

// Returns the canonical form: the serialized options without the device assignment.
std::string CanonicalCompileOptions(xla::CompileOptionsProto options);

// The devices of a program, as its options name them.
struct DeviceGrid {
  int num_replicas = 1;
  int num_partitions = 1;
  std::vector<DeviceId> devices;  // replica-major; empty: not said
};

// Returns the devices of a program. INVALID_ARGUMENT if the numbers are absurd, or the device assignment is not of that shape.
absl::StatusOr<DeviceGrid> DevicesOf(const xla::ExecutableBuildOptionsProto& options);

// Returns the serialized options of a client without the worker's rights on the hosts, reduced to what is safe there. Of the
// debug options, numbers stay, and texts that are known to be harmless; those that can end the process get XLA's defaults.
//
// Options are dropped without an error: jax sends them with every program if XLA_FLAGS or a folder of CUDA on the client's
// machine names them. A newer jax sends new ones. PERMISSION_DENIED, naming the option, if a user asks for one by name
// (compiler_options), or for an argument of LLVM. INVALID_ARGUMENT: the options cannot be read.
absl::StatusOr<std::string> OptionsOfStranger(absl::string_view options);

}  // namespace pw::program
