// What a host may ask of a client, read from PJRT_Client_Create's options, then from the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::pjrt_cpu {

struct Options {
  // cpu_device_count or num_devices; PJRT_CPU_DEVICES. Absent: one, or what XLA_FLAGS says.
  std::optional<int> device_count;
  // asynchronous. False: every Execute returns when the work is done.
  bool asynchronous = true;
  // max_inflight_computations_per_device. XLA's own default of 32 deadlocks: see README.md.
  int max_inflight = 65536;
  // memory_limit_bytes; PJRT_CPU_MEMORY_LIMIT_BYTES. Zero: no limit.
  int64_t memory_limit_bytes = 0;
  // node_id and num_nodes, as jax.distributed gives them.
  int node_id = 0;
  int num_nodes = 1;
  // peer_device_count: how many devices the other nodes have at most. Absent: as many as this one.
  std::optional<int> peer_device_count;
  // network_address: under which name processes of other machines reach this one; empty: only those of this machine connect.
  std::string network_address;
  // island: processes that name the same one share a fast network.
  std::string island;
};

// An unknown name or a wrong type is an INVALID_ARGUMENT that lists the known ones.
absl::StatusOr<Options> ReadOptions(const PJRT_NamedValue* values, size_t count);

}  // namespace pw::pjrt_cpu
