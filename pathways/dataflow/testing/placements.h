// Placements for tests.
#pragma once

#include <cstdint>
#include <memory>

#include "pathways/dataflow/graph/graph.h"

namespace pw::dataflow {

// Returns a placement with equally many shards on each of `hosts` hosts, from host `first` on.
inline PlacementRef Over(uint32_t hosts, uint32_t shards_per_host, uint32_t first = 0) {
  return std::make_shared<const Placement>(Placement::Uniform(HostId(first), hosts, shards_per_host));
}

}  // namespace pw::dataflow
