#include "pathways/buffers/array_spec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"

namespace pw::buffers {
namespace {

std::string ShapeText(absl::Span<const int64_t> dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

// The product of the non-zero dims must fit too: code that walks strides multiplies them in any order.
absl::StatusOr<int64_t> Product(int64_t first, absl::Span<const int64_t> dims) {
  int64_t n = first;
  bool zero = false;
  for (int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("the shape ", ShapeText(dims), " has a negative dimension"));
    if (dim == 0) {
      zero = true;
    } else if (__builtin_mul_overflow(n, dim, &n)) {
      return absl::InvalidArgumentError(absl::StrCat("the size of shape ", ShapeText(dims), " overflows 64 bits"));
    }
  }
  return zero ? 0 : n;
}

}  // namespace

ArraySpec SingleShardSpec(const ArraySpec& spec, int shard) {
  ArraySpec single;
  single.dtype = spec.dtype;
  single.dims = spec.sharding.TileRegion(spec.dims, spec.sharding.TileOfShard(shard)).size;
  single.sharding = Sharding::SingleDevice(spec.sharding.devices()[shard], spec.sharding.memory_kind());
  single.layout = spec.layout;
  return single;
}

absl::StatusOr<int64_t> NumElements(absl::Span<const int64_t> dims) { return Product(1, dims); }

absl::StatusOr<int64_t> DenseBytes(DType dtype, absl::Span<const int64_t> dims) {
  const int width = HostBytes(dtype);
  if (width > 0) return Product(width, dims);
  PW_RETURN_IF_ERROR(Product(1, dims).status());
  return 0;
}

std::string ToString(const ArraySpec& spec) {
  const int n = spec.sharding.num_shards();
  return absl::StrCat(std::string(Name(spec.dtype)), ShapeText(spec.dims), " over ", n, n == 1 ? " device" : " devices");
}

std::string DeviceNumbers(absl::Span<const DeviceId> devices) {
  constexpr size_t kShown = 8;
  auto number = [](std::string* out, DeviceId device) { absl::StrAppend(out, device.v); };
  return absl::StrCat(absl::StrJoin(devices.subspan(0, kShown), ",", number), devices.size() > kShown ? ",..." : "");
}

absl::Status Validate(const ArraySpec& spec) {
  PW_RETURN_IF_ERROR(DTypeFromNumber(static_cast<int32_t>(spec.dtype)).status());
  PW_RETURN_IF_ERROR(spec.sharding.CheckFits(spec.dims));
  // No shard is larger than the whole.
  return DenseBytes(spec.dtype, spec.dims).status();
}

absl::StatusOr<int64_t> ShardHostBytes(const ArraySpec& spec, int shard) {
  PW_ASSIGN_OR_RETURN(const Region region, spec.sharding.ShardRegion(spec.dims, shard));
  return DenseBytes(spec.dtype, region.size);
}

}  // namespace pw::buffers
