#include "pathways/frontend/convert/sharding.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/serdes.pb.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/convert/version.h"
#include "pathways/program/op_sharding.h"

namespace pw::frontend {
namespace {

using buffers::Dims;
using buffers::Sharding;

constexpr char kSingleDevice[] = "xla::ifrt::SingleDeviceSharding";
constexpr char kHlo[] = "xla::ifrt::HloSharding";

template <class Proto>
absl::StatusOr<Proto> Parse(const xla::ifrt::Serialized& serialized, int32_t newest = 0) {
  Proto proto;
  if (!proto.ParseFromString(serialized.data())) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding of type ", serialized.type_name(), " does not parse"));
  }
  PW_RETURN_IF_ERROR(CheckVersion(serialized.type_name(), proto.version_number(), newest));
  return proto;
}

std::vector<DeviceId> DevicesOf(const xla::ifrt::DeviceListProto& proto) {
  std::vector<DeviceId> devices;
  devices.reserve(proto.device_ids_size());
  for (int32_t id : proto.device_ids()) devices.push_back(DeviceId(id));
  return devices;
}

// Shards of one shape, in an order that is not given: assumed to be row-major.
absl::StatusOr<Sharding> FromShardShape(std::vector<DeviceId> devices, std::string memory_kind, absl::Span<const int64_t> dims,
                                        absl::Span<const int64_t> shard_dims) {
  if (dims.size() != shard_dims.size()) return absl::InvalidArgumentError("a shard's rank differs from its array's");
  buffers::Tiles tiles;
  int64_t total = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0 || shard_dims[d] < 0 || (shard_dims[d] == 0 && dims[d] != 0)) {
      return absl::InvalidArgumentError("a sharding has a shard shape that cannot cover its array");
    }
    const int64_t count = shard_dims[d] == 0 ? 1 : std::max<int64_t>(1, (dims[d] - 1) / shard_dims[d] + 1);
    if (count > static_cast<int64_t>(devices.size()) / total)
      return absl::InvalidArgumentError("a sharding has more tiles than devices");
    tiles.counts.push_back(count);
    total *= count;
  }
  if (total == 1) return Sharding::Replicated(std::move(devices), std::move(memory_kind));
  if (total != static_cast<int64_t>(devices.size())) {
    return absl::UnimplementedError("a sharding by shard shapes alone does not say which of its devices hold the same shard");
  }
  return Sharding::Tiled(std::move(devices), std::move(memory_kind), std::move(tiles));
}

absl::StatusOr<Sharding> FromSingleDevice(const xla::ifrt::Serialized& serialized) {
  PW_ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::SingleDeviceShardingProto>(serialized));
  return Sharding::SingleDevice(DeviceId(proto.device_id()), proto.memory_kind());
}

absl::StatusOr<Sharding> FromHlo(const xla::ifrt::Serialized& serialized, absl::Span<const int64_t> dims) {
  PW_ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::HloShardingProto>(serialized));
  return program::OpShardingToSharding(proto.xla_op_sharding(), DevicesOf(proto.devices()), proto.memory_kind(),
                                       static_cast<int>(dims.size()));
}

absl::StatusOr<Sharding> FromOpaque(const xla::ifrt::Serialized& serialized) {
  PW_ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::OpaqueShardingProto>(serialized));
  if (proto.devices().device_ids_size() != 1) {
    return absl::UnimplementedError("an OpaqueSharding of several devices does not say what each of them holds");
  }
  return Sharding::SingleDevice(DeviceId(proto.devices().device_ids(0)), proto.memory_kind());
}

absl::StatusOr<Sharding> FromConcreteEven(const xla::ifrt::Serialized& serialized) {
  PW_ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::ConcreteEvenShardingProto>(serialized));
  if (proto.is_fully_replicated()) return Sharding::Replicated(DevicesOf(proto.devices()), proto.memory_kind());
  return FromShardShape(DevicesOf(proto.devices()), proto.memory_kind(), proto.shape().dims(), proto.shard_shape().dims());
}

absl::StatusOr<Sharding> FromConcrete(const xla::ifrt::Serialized& serialized) {
  PW_ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::ConcreteShardingProto>(serialized));
  if (proto.has_dynamic_shape()) return absl::UnimplementedError("arrays of dynamic shape are not supported");
  if (proto.shard_shapes_size() == 0 || proto.shard_shapes_size() != proto.devices().device_ids_size()) {
    return absl::InvalidArgumentError("a ConcreteSharding must give a shape for each of its devices");
  }
  // If a dimension does not divide evenly, the first shard is the largest; all others must agree with the tiling that it implies.
  PW_ASSIGN_OR_RETURN(Sharding sharding, FromShardShape(DevicesOf(proto.devices()), proto.memory_kind(), proto.shape().dims(),
                                                        proto.shard_shapes(0).dims()));
  const Dims dims(proto.shape().dims().begin(), proto.shape().dims().end());
  for (int i = 0; i < proto.shard_shapes_size(); ++i) {
    PW_ASSIGN_OR_RETURN(Dims shard, sharding.ShardDims(dims, i));
    if (!std::equal(shard.begin(), shard.end(), proto.shard_shapes(i).dims().begin(), proto.shard_shapes(i).dims().end())) {
      return absl::UnimplementedError("a ConcreteSharding whose shards are not an even cut of the array is not supported");
    }
  }
  return sharding;
}

// The same as the tile assignment of an HLO sharding: iota over the device grid, major axis first, transposed to the order of the cuts.
absl::StatusOr<Sharding> FromShardingParam(const xla::ifrt::Serialized& serialized, absl::Span<const int64_t> dims) {
  PW_ASSIGN_OR_RETURN(auto proto, Parse<xla::ifrt::ShardingParamShardingProto>(serialized, 1));
  const xla::ifrt::ShardingParamProto& param = proto.sharding_param();
  if (param.unreduced_axes_size() > 0) return absl::UnimplementedError("ShardingParam with unreduced axes is not supported");
  const int axes = param.axis_sizes_size();
  if (axes != param.permutation_size())
    return absl::InvalidArgumentError("a ShardingParam must permute all axes of its device grid");
  xla::OpSharding op;
  op.set_type(xla::OpSharding::OTHER);
  int64_t left = proto.devices().device_ids_size();
  for (int64_t count : param.dim_shards()) {
    if (count < 1 || left % count != 0) return absl::InvalidArgumentError("a ShardingParam does not divide its devices");
    left /= count;
    op.add_tile_assignment_dimensions(count);
  }
  if (left > 1) {
    op.add_tile_assignment_dimensions(left);
    op.set_replicate_on_last_tile_dim(true);
  }
  for (int i = axes - 1; i >= 0; --i) {
    if (param.permutation(i) < 0) return absl::InvalidArgumentError("a ShardingParam permutes an axis that it does not have");
    op.add_iota_reshape_dims(param.axis_sizes(i));
    op.add_iota_transpose_perm(axes - 1 - param.permutation(i));
  }
  return program::OpShardingToSharding(op, DevicesOf(proto.devices()), proto.memory_kind(), static_cast<int>(dims.size()));
}

absl::StatusOr<Sharding> FromSerialized(const xla::ifrt::Serialized& serialized, absl::Span<const int64_t> dims) {
  const std::string& type = serialized.type_name();
  if (type == kHlo) return FromHlo(serialized, dims);
  if (type == kSingleDevice) return FromSingleDevice(serialized);
  if (type == "xla::ifrt::ConcreteEvenSharding") return FromConcreteEven(serialized);
  if (type == "xla::ifrt::ConcreteSharding") return FromConcrete(serialized);
  if (type == "xla::ifrt::ShardingParamSharding") return FromShardingParam(serialized, dims);
  if (type == "xla::ifrt::OpaqueSharding") return FromOpaque(serialized);
  return absl::UnimplementedError(absl::StrCat("shardings of type '", type, "' are not supported"));
}

}  // namespace

absl::StatusOr<Sharding> ShardingFromProto(const xla::ifrt::ShardingProto& proto, absl::Span<const int64_t> dims) {
  const xla::ifrt::Serialized& serialized = proto.serialized_sharding();
  PW_ASSIGN_OR_RETURN(Sharding sharding, FromSerialized(serialized, dims));
  PW_RETURN_IF_ERROR(sharding.CheckFits(dims));
  return sharding.WithWireForm({serialized.type_name(), serialized.data()});
}

xla::ifrt::ShardingProto ShardingToProto(const Sharding& sharding) {
  xla::ifrt::ShardingProto proto;
  xla::ifrt::Serialized& out = *proto.mutable_serialized_sharding();
  if (sharding.wire_form() != nullptr) {
    out.set_type_name(sharding.wire_form()->type_name);
    out.set_data(sharding.wire_form()->data);
    return proto;
  }
  if (sharding.num_shards() == 1) {
    xla::ifrt::SingleDeviceShardingProto single;
    single.set_device_id(sharding.devices()[0].v);
    if (!sharding.memory_kind().empty()) single.set_memory_kind(sharding.memory_kind());
    out.set_type_name(kSingleDevice);
    out.set_data(single.SerializeAsString());
    return proto;
  }
  xla::ifrt::HloShardingProto hlo;
  for (DeviceId device : sharding.devices()) hlo.mutable_devices()->add_device_ids(device.v);
  if (!sharding.memory_kind().empty()) hlo.set_memory_kind(sharding.memory_kind());
  *hlo.mutable_xla_op_sharding() = program::ShardingToOpSharding(sharding);
  out.set_type_name(kHlo);
  out.set_data(hlo.SerializeAsString());
  return proto;
}

absl::StatusOr<Sharding> ShardingFromOpSharding(const std::string& op_sharding, std::vector<DeviceId> devices,
                                                std::string memory_kind, absl::Span<const int64_t> dims) {
  PW_ASSIGN_OR_RETURN(Sharding sharding, program::OpShardingToSharding(op_sharding, std::move(devices), std::move(memory_kind),
                                                                       static_cast<int>(dims.size())));
  PW_RETURN_IF_ERROR(sharding.CheckFits(dims));
  return sharding;
}

}  // namespace pw::frontend
