// Placement: turns bytes in host memory into the contents of a pending shard, once its device has room.
// Lives on the worker's strand.
#pragma once

#include <string>

#include "absl/functional/any_invocable.h"
#include "pathways/device/device.h"
#include "pathways/worker/store/device_arrays.h"

namespace pw::worker {

// Makes `shard` live and settles it; then calls `done` with the outcome.
void Place(DeviceArrays* arrays, ShardRef shard, device::HostArray array, std::string memory_kind,
           absl::AnyInvocable<void(const absl::Status&) &&> done);

}  // namespace pw::worker
