// Converts types, layouts and shapes between the C API and XLA.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/strings/str_join.h"
#include "plugins/pjrt_cpu/handles.h"
#include "xla/layout_util.h"
#include "xla/primitive_util.h"
#include "xla/shape_util.h"

namespace pw::pjrt_cpu {
namespace {

struct TypePair {
  PJRT_Buffer_Type c;
  xla::PrimitiveType xla;
};

constexpr TypePair kTypes[] = {
    {PJRT_Buffer_Type_PRED, xla::PRED},
    {PJRT_Buffer_Type_S8, xla::S8},
    {PJRT_Buffer_Type_S16, xla::S16},
    {PJRT_Buffer_Type_S32, xla::S32},
    {PJRT_Buffer_Type_S64, xla::S64},
    {PJRT_Buffer_Type_U8, xla::U8},
    {PJRT_Buffer_Type_U16, xla::U16},
    {PJRT_Buffer_Type_U32, xla::U32},
    {PJRT_Buffer_Type_U64, xla::U64},
    {PJRT_Buffer_Type_F16, xla::F16},
    {PJRT_Buffer_Type_F32, xla::F32},
    {PJRT_Buffer_Type_F64, xla::F64},
    {PJRT_Buffer_Type_BF16, xla::BF16},
    {PJRT_Buffer_Type_C64, xla::C64},
    {PJRT_Buffer_Type_C128, xla::C128},
    {PJRT_Buffer_Type_F8E5M2, xla::F8E5M2},
    {PJRT_Buffer_Type_F8E4M3FN, xla::F8E4M3FN},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, xla::F8E4M3B11FNUZ},
    {PJRT_Buffer_Type_F8E5M2FNUZ, xla::F8E5M2FNUZ},
    {PJRT_Buffer_Type_F8E4M3FNUZ, xla::F8E4M3FNUZ},
    {PJRT_Buffer_Type_S4, xla::S4},
    {PJRT_Buffer_Type_U4, xla::U4},
    {PJRT_Buffer_Type_TOKEN, xla::TOKEN},
    {PJRT_Buffer_Type_S2, xla::S2},
    {PJRT_Buffer_Type_U2, xla::U2},
    {PJRT_Buffer_Type_F8E4M3, xla::F8E4M3},
    {PJRT_Buffer_Type_F8E3M4, xla::F8E3M4},
    {PJRT_Buffer_Type_F8E8M0FNU, xla::F8E8M0FNU},
    {PJRT_Buffer_Type_F4E2M1FN, xla::F4E2M1FN},
};

// Returns the dimension order, minor first, that dense strides describe; dimensions of size one may have any stride.
absl::StatusOr<xla::Layout> FromStrides(absl::Span<const int64_t> strides, xla::PrimitiveType type,
                                        absl::Span<const int64_t> dims) {
  if (strides.size() != dims.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a memory layout has ", strides.size(), " strides for ", dims.size(),
                                                   " dimensions; give one stride per dimension"));
  }
  std::vector<int64_t> order(dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());  // of dimensions with equal strides, the later one is more minor
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return strides[a] < strides[b]; });
  int64_t expected = xla::primitive_util::ByteWidth(type);
  for (int64_t dim : order) {
    if (dims[dim] != 1 && strides[dim] != expected) {
      return absl::UnimplementedError(absl::StrCat("strides [", absl::StrJoin(strides, ","), "] over dimensions [",
                                                   absl::StrJoin(dims, ","),
                                                   "] are not those of a dense array; copy the data first"));
    }
    expected *= dims[dim];
  }
  return xla::LayoutUtil::MakeLayout(order);
}

}  // namespace

PJRT_Buffer_Type ToBufferType(xla::PrimitiveType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.xla == type) return pair.c;
  }
  return PJRT_Buffer_Type_INVALID;
}

absl::StatusOr<xla::PrimitiveType> FromBufferType(PJRT_Buffer_Type type) {
  for (const TypePair& pair : kTypes) {
    if (pair.c == type) return pair.xla;
  }
  return absl::UnimplementedError(
      absl::StrCat("element type ", static_cast<int>(type), " of PJRT_Buffer_Type is not known to this version of XLA"));
}

absl::StatusOr<xla::Layout> FromMemoryLayout(const PJRT_Buffer_MemoryLayout& layout, xla::PrimitiveType type,
                                             absl::Span<const int64_t> dims) {
  if (layout.type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    return FromStrides({layout.strides.byte_strides, layout.strides.num_byte_strides}, type, dims);
  }
  const PJRT_Buffer_MemoryLayout_Tiled& tiled = layout.tiled;
  std::vector<xla::Tile> tiles;
  const int64_t* next = tiled.tile_dims;
  for (size_t i = 0; i < tiled.num_tiles; ++i) {
    tiles.emplace_back(absl::MakeConstSpan(next, tiled.tile_dim_sizes[i]));
    next += tiled.tile_dim_sizes[i];
  }
  xla::Layout result(absl::MakeConstSpan(tiled.minor_to_major, tiled.minor_to_major_size));
  result.mutable_tiles()->assign(tiles.begin(), tiles.end());
  if (static_cast<size_t>(result.minor_to_major().size()) != dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a memory layout orders ", tiled.minor_to_major_size, " dimensions, the array has ", dims.size()));
  }
  return result;
}

absl::StatusOr<xla::Shape> MakeShape(PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims,
                                     const PJRT_Buffer_MemoryLayout* layout) {
  absl::StatusOr<xla::PrimitiveType> element = FromBufferType(type);
  if (!element.ok()) return element.status();
  const absl::Span<const int64_t> span(dims, num_dims);
  absl::StatusOr<xla::Shape> shape = xla::ShapeUtil::MakeValidatedShape(*element, span);
  if (!shape.ok()) return shape.status();
  if (layout == nullptr) {
    xla::LayoutUtil::SetToDefaultLayout(&*shape);
    return shape;
  }
  absl::StatusOr<xla::Layout> wanted = FromMemoryLayout(*layout, *element, span);
  if (!wanted.ok()) return wanted.status();
  *shape->mutable_layout() = *wanted;
  return shape;
}

LayoutData::LayoutData(const xla::Layout& layout)
    : minor_to_major(layout.minor_to_major().begin(), layout.minor_to_major().end()) {
  for (const xla::Tile& tile : layout.tiles()) {
    tile_dim_sizes.push_back(tile.dimensions().size());
    tile_dims.insert(tile_dims.end(), tile.dimensions().begin(), tile.dimensions().end());
  }
  view = PJRT_Buffer_MemoryLayout{PJRT_Buffer_MemoryLayout_STRUCT_SIZE};
  view.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  view.tiled = PJRT_Buffer_MemoryLayout_Tiled{PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE};
  view.tiled.minor_to_major = minor_to_major.data();
  view.tiled.minor_to_major_size = minor_to_major.size();
  view.tiled.tile_dims = tile_dims.data();
  view.tiled.tile_dim_sizes = tile_dim_sizes.data();
  view.tiled.num_tiles = tile_dim_sizes.size();
}

}  // namespace pw::pjrt_cpu
