// A check for arrays whose device layout is not row-major: only a copy within one host keeps such a layout.
#pragma once

#include "absl/status/status.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/resource/topology.h"

namespace pw::controller {

// Returns UNIMPLEMENTED if a shard whose layout is not row-major would move to another host: data travels between hosts in row-major order,
// and stays in that order on arrival.
absl::Status CheckKeepsLayout(const resource::Topology& topology, const buffers::ArraySpec& from, const buffers::ArraySpec& to);

}  // namespace pw::controller
