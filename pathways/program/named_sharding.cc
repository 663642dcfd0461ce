#include "pathways/program/named_sharding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"

namespace pw::program {
namespace {

// A mesh axis or sub-axis that cuts a dimension. A device's coordinate along it is position / stride % size.
struct Factor {
  int64_t stride;
  int64_t size;
};

absl::Status CheckProduct(absl::Span<const int64_t> dims, size_t n, const char* what) {
  int64_t product = 1;
  for (int64_t d : dims) {
    if (d < 1 || __builtin_mul_overflow(product, d, &product) || product > static_cast<int64_t>(n)) product = -1;
    if (product < 0) break;
  }
  if (product == static_cast<int64_t>(n)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " [", absl::StrJoin(dims, ","), "] do not make ", n, " devices"));
}

// Returns each device's row-major position in the mesh, by device.
absl::StatusOr<std::vector<int64_t>> MeshPositions(const xla::MeshProto& mesh, size_t num_shards) {
  std::vector<int64_t> order;
  if (mesh.device_ids_size() > 0) {
    order.assign(mesh.device_ids().begin(), mesh.device_ids().end());
  } else if (mesh.has_iota_transform()) {
    const auto& iota = mesh.iota_transform();
    PW_ASSIGN_OR_RETURN(order, TransposedIota(iota.reshape_dims(), iota.transpose_perm(), num_shards));
  } else {
    PW_ASSIGN_OR_RETURN(order, TransposedIota({static_cast<int64_t>(num_shards)}, {}, num_shards));
  }
  std::vector<int64_t> position(num_shards, -1);
  if (order.size() != num_shards)
    return absl::InvalidArgumentError(absl::StrCat("a mesh lists ", order.size(), " devices of ", num_shards));
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= static_cast<int64_t>(num_shards) || position[order[i]] >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("a mesh lists device ", order[i], " twice, or it does not exist"));
    }
    position[order[i]] = i;
  }
  return position;
}

absl::StatusOr<Factor> FactorOf(const xla::AxisRefProto& axis, absl::Span<const int64_t> sizes,
                                absl::Span<const int64_t> strides) {
  const int64_t index = axis.mesh_axis_index();
  if (index < 0 || index >= static_cast<int64_t>(sizes.size())) {
    return absl::InvalidArgumentError(absl::StrCat("a sharding names mesh axis ", index, " of ", sizes.size()));
  }
  if (!axis.has_sub_axis_info()) return Factor{strides[index], sizes[index]};
  const int64_t pre = axis.sub_axis_info().pre_size();
  const int64_t size = axis.sub_axis_info().size();
  if (pre < 1 || size < 1 || sizes[index] % pre != 0 || (sizes[index] / pre) % size != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sub-axis (", pre, ")", size, " does not divide a mesh axis of size ", sizes[index]));
  }
  return Factor{strides[index] * (sizes[index] / pre / size), size};
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> TransposedIota(absl::Span<const int64_t> reshape_dims, absl::Span<const int64_t> perm,
                                                    size_t n) {
  PW_RETURN_IF_ERROR(CheckProduct(reshape_dims, n, "iota dims"));
  const size_t rank = reshape_dims.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * reshape_dims[d];
  std::vector<bool> seen(rank, false);
  for (int64_t p : perm) {
    if (perm.size() != rank || p < 0 || p >= static_cast<int64_t>(rank) || seen[p]) {
      return absl::InvalidArgumentError(
          absl::StrCat("[", absl::StrJoin(perm, ","), "] is no permutation of ", rank, " dimensions"));
    }
    seen[p] = true;
  }
  std::vector<Factor> order;  // the innermost first; without factors of size 1, as a client may write any number of them
  for (size_t k = rank; k-- > 0;) {
    const size_t d = perm.empty() ? k : perm[k];
    if (reshape_dims[d] > 1) order.push_back({strides[d], reshape_dims[d]});
  }
  std::vector<int64_t> values(n, 0);
  for (size_t i = 0; i < n; ++i) {
    int64_t rest = i;
    for (const Factor& factor : order) {
      values[i] += rest % factor.size * factor.stride;
      rest /= factor.size;
    }
  }
  return values;
}

absl::StatusOr<buffers::Tiles> NamedShardingToTiles(const xla::NamedShardingProto& proto, size_t num_shards, int rank) {
  std::vector<int64_t> sizes;
  for (const auto& axis : proto.mesh().axes()) sizes.push_back(axis.size());
  // A mesh without axes means "replicated".
  if (sizes.empty()) return buffers::Tiles{};
  PW_RETURN_IF_ERROR(CheckProduct(sizes, num_shards, "mesh axes"));
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  PW_ASSIGN_OR_RETURN(const std::vector<int64_t> position, MeshPositions(proto.mesh(), num_shards));
  if (proto.dim_shardings_size() > rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sharding of ", proto.dim_shardings_size(), " dimensions for a value of rank ", rank));
  }
  buffers::Tiles tiles{buffers::Dims(rank, 1), std::vector<int32_t>(num_shards, 0)};
  int64_t total = 1;
  // Builds row-major tile numbers, one factor after another, the major dimensions first.
  for (int d = 0; d < proto.dim_shardings_size(); ++d) {
    for (const auto& axis : proto.dim_shardings(d).axes()) {
      PW_ASSIGN_OR_RETURN(const Factor factor, FactorOf(axis, sizes, strides));
      if (factor.size == 1) continue;  // a client may write any number of them
      if (__builtin_mul_overflow(total, factor.size, &total) || total > static_cast<int64_t>(num_shards)) {
        return absl::InvalidArgumentError("a sharding uses a mesh axis twice");
      }
      tiles.counts[d] *= factor.size;
      for (size_t s = 0; s < num_shards; ++s) {
        tiles.tile_of_shard[s] =
            static_cast<int32_t>(tiles.tile_of_shard[s] * factor.size + position[s] / factor.stride % factor.size);
      }
    }
  }
  return tiles;
}

}  // namespace pw::program
