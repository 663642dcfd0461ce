#include "plugins/pathways_pjrt/convert.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/byte_strides.h"
#include "plugins/pathways_pjrt/handles.h"
#include "xla/xla_data.pb.h"

namespace pw::pathways_pjrt {
namespace {

using buffers::DType;

struct TypePair {
  PJRT_Buffer_Type c;
  DType ours;
};

constexpr TypePair kTypes[] = {
    {PJRT_Buffer_Type_PRED, DType::kPred},
    {PJRT_Buffer_Type_S8, DType::kS8},
    {PJRT_Buffer_Type_S16, DType::kS16},
    {PJRT_Buffer_Type_S32, DType::kS32},
    {PJRT_Buffer_Type_S64, DType::kS64},
    {PJRT_Buffer_Type_U8, DType::kU8},
    {PJRT_Buffer_Type_U16, DType::kU16},
    {PJRT_Buffer_Type_U32, DType::kU32},
    {PJRT_Buffer_Type_U64, DType::kU64},
    {PJRT_Buffer_Type_F16, DType::kF16},
    {PJRT_Buffer_Type_F32, DType::kF32},
    {PJRT_Buffer_Type_F64, DType::kF64},
    {PJRT_Buffer_Type_BF16, DType::kBF16},
    {PJRT_Buffer_Type_C64, DType::kC64},
    {PJRT_Buffer_Type_C128, DType::kC128},
    {PJRT_Buffer_Type_F8E5M2, DType::kF8E5M2},
    {PJRT_Buffer_Type_F8E4M3FN, DType::kF8E4M3FN},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, DType::kF8E4M3B11FNUZ},
    {PJRT_Buffer_Type_F8E5M2FNUZ, DType::kF8E5M2FNUZ},
    {PJRT_Buffer_Type_F8E4M3FNUZ, DType::kF8E4M3FNUZ},
    {PJRT_Buffer_Type_S4, DType::kS4},
    {PJRT_Buffer_Type_U4, DType::kU4},
    {PJRT_Buffer_Type_TOKEN, DType::kToken},
    {PJRT_Buffer_Type_S2, DType::kS2},
    {PJRT_Buffer_Type_U2, DType::kU2},
    {PJRT_Buffer_Type_F8E4M3, DType::kF8E4M3},
    {PJRT_Buffer_Type_F8E3M4, DType::kF8E3M4},
    {PJRT_Buffer_Type_F8E8M0FNU, DType::kF8E8M0FNU},
    {PJRT_Buffer_Type_F4E2M1FN, DType::kF4E2M1FN},
};

std::vector<int64_t> RowMajor(size_t rank) {
  std::vector<int64_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(rank - 1 - i);
  return order;
}

// Returns whether the list names each of `rank` dimensions once.
bool IsOrder(absl::Span<const int64_t> order, size_t rank) {
  std::vector<bool> seen(rank);
  for (int64_t d : order) {
    if (d < 0 || d >= static_cast<int64_t>(rank) || seen[d]) return false;
    seen[d] = true;
  }
  return order.size() == rank;
}

}  // namespace

PJRT_Buffer_Type ToBufferType(DType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.ours == type) return pair.c;
  }
  return PJRT_Buffer_Type_INVALID;
}

absl::StatusOr<DType> FromBufferType(PJRT_Buffer_Type type) {
  for (const TypePair& pair : kTypes) {
    if (pair.c == type) return pair.ours;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("element type ", static_cast<int>(type), " of the PJRT C API is not known here"));
}

std::vector<int64_t> OrderOf(const std::string& layout, size_t rank) {
  xla::LayoutProto proto;
  if (layout.empty() || !proto.ParseFromString(layout) || !IsOrder(proto.minor_to_major(), rank)) return RowMajor(rank);
  return {proto.minor_to_major().begin(), proto.minor_to_major().end()};
}

std::string TextOf(absl::Span<const int64_t> minor_to_major) {
  return absl::StrCat("{", absl::StrJoin(minor_to_major, ","), "}");
}

absl::StatusOr<std::optional<buffers::Dims>> StridesOf(const PJRT_Buffer_MemoryLayout* layout, DType dtype,
                                                       absl::Span<const int64_t> dims) {
  if (layout == nullptr) return std::nullopt;
  buffers::Dims strides(dims.size());
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    if (layout->strides.num_byte_strides != dims.size())
      return absl::InvalidArgumentError(
          absl::StrCat("a layout of ", layout->strides.num_byte_strides, " strides for an array of rank ", dims.size()));
    strides.assign(layout->strides.byte_strides, layout->strides.byte_strides + dims.size());
  } else {
    if (layout->tiled.num_tiles > 0) return NotYet("a tiled layout of an array in host memory");
    const absl::Span<const int64_t> order(layout->tiled.minor_to_major, layout->tiled.minor_to_major_size);
    if (!IsOrder(order, dims.size())) return absl::InvalidArgumentError("a layout does not name every dimension once");
    int64_t stride = buffers::HostBytes(dtype);
    for (int64_t d : order) {
      strides[d] = stride;
      if (__builtin_mul_overflow(stride, dims[d], &stride)) return absl::InvalidArgumentError("the size of an array overflows");
    }
  }
  if (buffers::IsDense(buffers::HostBytes(dtype), dims, strides)) return std::nullopt;
  return strides;
}

absl::Status CheckRowMajor(const PJRT_Buffer_MemoryLayout* layout, DType dtype, absl::Span<const int64_t> dims) {
  PW_ASSIGN_OR_RETURN(const auto strides, StridesOf(layout, dtype, dims));
  return strides.has_value() ? NotYet("another layout than row-major for an array from host memory") : absl::OkStatus();
}

}  // namespace pw::pathways_pjrt
