// HostPart: one host's part of a Python function (session/host_function.h): the shards of its arrays that are on this host. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

struct LocalShard {
  int index = 0;         // in the array
  DeviceId device;       // physical
  int local_device = 0;  // on this host
  buffers::Dims dims;
  int64_t bytes = 0;  // in host memory; 0 for strings, which have no fixed size
};

struct LocalArray {
  buffers::DType dtype = buffers::DType::kInvalid;
  std::string memory_kind;
  std::vector<LocalShard> shards;  // at least one
};

struct HostPart {
  std::string name;
  std::string text;
  std::vector<std::pair<DeviceId, DeviceId>> bound;  // each device of a virtual slice that the text names, and its physical one
  std::vector<LocalArray> inputs;
  std::vector<LocalArray> outputs;
};

// `devices`: the number of devices of this host. INVALID_ARGUMENT: the command does not fit the function in its payload, or this host.
absl::StatusOr<HostPart> ReadHostPart(const pathways::v1::Compile& command, const Bytes& payload, HostId self, int devices);

// Return the header with which a process loads the function, and the greeting that tells a process its place in the cluster
// (message.h, process.h).
std::string LoadHeader(uint64_t number, const HostPart& part);
std::string Greeting(const pathways::v1::FunctionHosts& hosts, const std::string& host_name);

}  // namespace pw::worker
