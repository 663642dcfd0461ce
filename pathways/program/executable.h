// Executable: the controller's record of a compiled computation. There is one record per executable, however many devices it runs on.
//
// Immutable. The worker reports each value as one device sees it (Compiled.Value). From that and the value's sharding,
// CompleteExecutable computes the specs of the whole result arrays once; all arrays that Execute makes share them.
//
// Invariants:
//   EB-1  output_specs->at(i) is the spec of the i-th result of every execution; it never changes (clients cache it)
//   EB-2  every donated input is the index of a parameter
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
  std::vector<DeviceId> devices;  // replica-major
  std::vector<DeviceId>
      physical;  // the physical devices of `devices` at compile time, where it runs; virtual slices may have moved since
  std::vector<HostId> hosts;  // ascending
  std::vector<Value> parameters;
  std::vector<Value> outputs;
  std::shared_ptr<const std::vector<buffers::ArraySpec>> output_specs;
  std::vector<int32_t> donated_inputs;
  std::string memory_stats;
  int64_t code_bytes = 0;

  // Returns the i-th output spec; it shares ownership with all others.
  std::shared_ptr<const buffers::ArraySpec> output_spec(int i) const { return {output_specs, &(*output_specs)[i]}; }
};

// Completes a record, in which id, owner, replicas, partitions, devices and hosts are set, with the worker's report. Returns an error
// if the report is inconsistent, or describes arrays that ArraySpec cannot represent.
absl::StatusOr<std::shared_ptr<const Executable>> CompleteExecutable(Executable record, const ::pathways::v1::Compiled& compiled);

// Returns the spec of the whole array that the executable takes as its `index`-th argument. Returns an error if the worker's report
// of it is inconsistent.
absl::StatusOr<buffers::ArraySpec> ParameterSpec(const Executable& executable, int index);

// Returns OK if an array of this spec may be the `index`-th argument: same devices in the same order, same element type, and shards
// of the parameter's shape.
absl::Status CheckArgument(const Executable& executable, int index, const buffers::ArraySpec& spec);

}  // namespace pw::program
