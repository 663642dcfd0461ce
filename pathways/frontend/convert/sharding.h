// Conversion of shardings between ours, which map shards to tiles, and the many forms of the wire.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ifrt_proxy/ifrt.pb.h"
#include "pathways/buffers/sharding.h"

namespace pw::frontend {

// Converts the sharding of an array of these dimensions. The result remembers its wire form. INVALID_ARGUMENT if it is inconsistent or does
// not fit the dimensions; UNIMPLEMENTED, naming the type, if it does not map shards to tiles. Does not check device ids.
absl::StatusOr<buffers::Sharding> ShardingFromProto(const xla::ifrt::ShardingProto& proto, absl::Span<const int64_t> dims);

// Returns the wire form from which the sharding came, if any; else SingleDevice for one device, HloSharding for more.
xla::ifrt::ShardingProto ShardingToProto(const buffers::Sharding& sharding);

// `op_sharding`: a serialized xla.OpSharding that numbers devices by their position in `devices`.
absl::StatusOr<buffers::Sharding> ShardingFromOpSharding(const std::string& op_sharding, std::vector<DeviceId> devices,
                                                         std::string memory_kind, absl::Span<const int64_t> dims);

}  // namespace pw::frontend
