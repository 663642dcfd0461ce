// Options of a client, read from PJRT_Client_Create's options, then from the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace pw::pjrt_cpu {

struct Options {
  // cpu_device_count or num_devices; PJRT_CPU_DEVICES. Absent: one, or the number in XLA_FLAGS.
  std::optional<int> device_count;
  // asynchronous. False: every Execute returns when the work is done.
  bool asynchronous = true;
  // max_inflight_computations_per_device. XLA's own default of 32 deadlocks: see README.md.
  int max_inflight = 65536;
  // memory_limit_bytes; PJRT_CPU_MEMORY_LIMIT_BYTES. Zero: no limit.
  int64_t memory_limit_bytes = 0;
  // node_id and num_nodes, as jax.distributed gives them, and as plugins for accelerators read them.
  int node_id = 0;
  int num_nodes = 1;
  // world: "elastic" or "key_value". How the processes find each other (net/network.h).
  bool key_value_world = false;
  // peer_device_count: the largest device count of the other nodes. Absent: this node's. A key-value world knows each node's.
  std::optional<int> peer_device_count;
  // network_address: the name by which processes on other machines connect; empty: only processes of this machine can.
  std::string network_address;
  // island: processes with the same name share a fast network.
  std::string island;
};

// The most devices of a process: XLA packs the local index of a device into 11 bits.
inline constexpr int kMostDevices = 2048;

// Reads the options. INVALID_ARGUMENT for an unknown name or a wrong type; lists the known names.
absl::StatusOr<Options> ReadOptions(const PJRT_NamedValue* values, size_t count);

}  // namespace pw::pjrt_cpu
