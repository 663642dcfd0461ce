// Executable: what the controller knows of a compiled program; one record for each, however many devices it runs on.
//
// Immutable once made. The worker says what one device sees of each value (Compiled.Value); from its sharding follow the whole
// arrays that Execute makes, computed here once and shared by all of them.
//
// Invariants:
//   EX-1  output_specs->at(i) is the spec of every i-th result: constant for the life of the executable (clients cache it)
//   EX-2  every donated input is the index of a parameter
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/v1/worker.pb.h"

namespace pw::program {

// One argument or result, as one device sees it.
struct Value {
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims shard_dims;
  std::string op_sharding;  // serialized xla.OpSharding; empty: unknown
  std::string layout;       // serialized xla.LayoutProto; empty: unknown
  std::string memory_kind;
};

struct Executable {
  ExecutableId id;
  SessionId owner;
  std::string name;
  std::string fingerprint;
  int num_replicas = 1;
  int num_partitions = 1;
  std::vector<DeviceId> devices;   // replica-major
  std::vector<DeviceId> physical;  // where those were when it was compiled, and it runs: slices may have been moved since
  std::vector<HostId> hosts;       // ascending
  std::vector<Value> parameters;
  std::vector<Value> outputs;
  std::shared_ptr<const std::vector<buffers::ArraySpec>> output_specs;
  std::vector<int32_t> donated_inputs;
  std::string memory_stats;
  int64_t code_bytes = 0;

  // Sharing ownership with all other specs.
  std::shared_ptr<const buffers::ArraySpec> output_spec(int i) const { return {output_specs, &(*output_specs)[i]}; }
};

// Completes a record (id, owner, shape of the computation, devices and hosts are set) with what the worker reported. An error if
// the report makes no sense, or describes arrays that we cannot name.
absl::StatusOr<std::shared_ptr<const Executable>> CompleteExecutable(Executable record, const ::pathways::v1::Compiled& compiled);

// What the executable takes, whole, as it wants it. An error if the worker's report of it makes no sense.
absl::StatusOr<buffers::ArraySpec> ParameterSpec(const Executable& executable, int index);

// OK if an array may be the `index`-th argument: same devices in the same order, same type, and shards of the parameter's shape.
absl::Status CheckArgument(const Executable& executable, int index, const buffers::ArraySpec& spec);

}  // namespace pw::program
