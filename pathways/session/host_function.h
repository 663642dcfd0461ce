// HostFunction: a Python function that runs on the hosts of its devices (jax.experimental.colocated_python). A client compiles
// and executes it like a program: its format is kHostFunctionFormat, its bytes are a v1.HostFunction (session.proto).
//
// Only the Python processes of the hosts read `text`.
//
// Invariants:
//   HF-1  the devices are distinct, and every array is on all of them, in an order of its own
//   HF-2  every array has a size that fits int64 (buffers::Validate)
//   HF-3  physical devices are given for all devices or for none
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/program/program.h"

namespace pw::session {

using program::kHostFunctionFormat;
inline constexpr size_t kMostHostFunctionBytes = 64 << 20;
inline constexpr size_t kMostHostFunctionArrays = 1 << 16;  // arguments and results together

struct HostFunction {
  std::string name;
  std::string text;
  std::vector<DeviceId> devices;
  std::vector<buffers::ArraySpec> inputs;
  std::vector<buffers::ArraySpec> outputs;
  std::vector<DeviceId> physical = {};  // the devices of each host that run it; empty: those above
};

absl::Status CheckHostFunctionSize(size_t bytes);
std::string SerializeHostFunction(HostFunction function);
// INVALID_ARGUMENT or RESOURCE_EXHAUSTED names the fault.
absl::StatusOr<HostFunction> ParseHostFunction(const Bytes& bytes);

// OK if an array of this spec may be the `index`-th argument.
absl::Status CheckFunctionArgument(const HostFunction& function, size_t index, const buffers::ArraySpec& spec);

}  // namespace pw::session
