// Arrays with a layout of their own (not row-major), which only copies within a host keep.
#pragma once

#include "absl/status/status.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/resource/topology.h"

namespace pw::controller {

// UNIMPLEMENTED where a shard with a layout of its own would go to another host: between hosts data travels row-major, and arrives so.
absl::Status CheckKeepsLayout(const resource::Topology& topology, const buffers::ArraySpec& from, const buffers::ArraySpec& to);

}  // namespace pw::controller
