// In place of the wheel's header of this name, which g++ does not take (an ambiguous constructor): what the partitioner's header and we
// need of it. The class has the size of XLA's.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "xla/hlo/ir/hlo_sharding.h"
#include "xla/hlo/ir/tile_assignment.h"

namespace xla::hlo_sharding_util {

class DeviceGroupTileAssignment : public TileAssignment {};

HloSharding PartiallyReplicateTiledShardingOnAllDimsExcept(const HloSharding& sharding, absl::Span<const int64_t> dims_to_keep);

}  // namespace xla::hlo_sharding_util
