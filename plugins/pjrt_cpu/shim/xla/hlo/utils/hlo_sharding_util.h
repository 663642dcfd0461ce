// Replaces the wheel's header of the same name, which g++ rejects (an ambiguous constructor). It declares only the names that the
// partitioner's header and our files need. The class has the size of XLA's.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "xla/hlo/ir/hlo_sharding.h"
#include "xla/hlo/ir/tile_assignment.h"

namespace xla::hlo_sharding_util {

class DeviceGroupTileAssignment : public TileAssignment {};

HloSharding PartiallyReplicateTiledShardingOnAllDimsExcept(const HloSharding& sharding, absl::Span<const int64_t> dims_to_keep);

}  // namespace xla::hlo_sharding_util
