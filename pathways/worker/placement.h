// Placement: bytes in host memory become the contents of a pending shard, once there is room for them on its device.
// Lives on the worker's strand.
#pragma once

#include <string>

#include "absl/functional/any_invocable.h"
#include "pathways/worker/core.h"

namespace pw::worker {

// Makes `shard` live and settles it; then calls `done` with how it ended.
void Place(Core* core, ShardRef shard, device::HostArray array, std::string memory_kind,
           absl::AnyInvocable<void(const absl::Status&) &&> done);

}  // namespace pw::worker
