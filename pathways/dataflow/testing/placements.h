// Placements of tests.
#pragma once

#include <cstdint>
#include <memory>

#include "pathways/dataflow/graph.h"

namespace pw::dataflow {

// The same number of shards on each of `hosts` hosts, of which `first` is the first.
inline PlacementRef Over(uint32_t hosts, uint32_t shards_per_host, uint32_t first = 0) {
  return std::make_shared<const Placement>(Placement::Uniform(HostId(first), hosts, shards_per_host));
}

}  // namespace pw::dataflow
