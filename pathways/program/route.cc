#include "pathways/program/route.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "pathways/base/status_macros.h"

namespace pw::program {
namespace {

using buffers::ArraySpec;
using buffers::Dims;
using Specs = absl::Span<const std::shared_ptr<const ArraySpec>>;

constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();  // slots are s32

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

bool IsCutByRows(const ArraySpec& spec) {
  const Dims& counts = spec.sharding.tiles().counts;
  return counts.empty() || std::all_of(counts.begin() + 1, counts.end(), [](int64_t count) { return count == 1; });
}

// Returns whether each shard of `keys` is on the device that has the rows to which they belong.
bool IsCutAs(const ArraySpec& keys, const ArraySpec& rows) {
  return keys.sharding.devices() == rows.sharding.devices() && keys.sharding.num_tiles() == rows.sharding.num_tiles() &&
         keys.sharding.tiles().tile_of_shard == rows.sharding.tiles().tile_of_shard;
}

absl::Status CheckRows(const ArraySpec& spec, const std::string& what, size_t rank) {
  if (spec.dims.size() < rank) return Bad(absl::StrCat(what, " needs ", rank, " dimensions, and is ", buffers::ToString(spec)));
  if (!IsCutByRows(spec))
    return Bad(absl::StrCat(what, " is cut along another dimension than its first: ", buffers::ToString(spec)));
  return absl::OkStatus();
}

absl::Status CheckKeys(const ArraySpec& keys, const Dims& dims, const ArraySpec& rows, const std::string& what) {
  PW_RETURN_IF_ERROR(CheckRows(keys, what, dims.size()));
  if (keys.dtype != buffers::DType::kS32 || keys.dims != dims)
    return Bad(absl::StrCat(what, " must be s32[", dims[0], dims.size() > 1 ? absl::StrCat(",", dims[1]) : "", "], and is ",
                            buffers::ToString(keys)));
  if (!IsCutAs(keys, rows)) return Bad(absl::StrCat(what, " must be cut as its rows, and be on the same devices"));
  return absl::OkStatus();
}

// Takes dims and types of the rows where they come from when they go out.
absl::Status TakeSource(const ArraySpec& source, const std::string& what, RouteShape* shape) {
  PW_RETURN_IF_ERROR(CheckRows(source, what, 1));
  shape->dtype = source.dtype;
  if (buffers::HostBytes(source.dtype) == 0)
    return Bad(absl::StrCat(what, " is of a type without elements: ", buffers::ToString(source)));
  shape->rows = source.dims[0];
  shape->row_dims.assign(source.dims.begin() + 1, source.dims.end());
  PW_ASSIGN_OR_RETURN(shape->row_bytes, buffers::DenseBytes(shape->dtype, shape->row_dims));
  if (shape->rows > kMostRows) return Bad(absl::StrCat(what, " has more than ", kMostRows, " rows"));
  return absl::OkStatus();
}

// Takes the experts of each group from its rows, [experts, capacity, ...].
absl::Status TakeGroups(Specs groups, const std::string& what, RouteShape* shape) {
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::string name = absl::StrCat(what, " ", g);
    PW_RETURN_IF_ERROR(CheckRows(*groups[g], name, 2));
    const Dims& dims = groups[g]->dims;
    if (dims[0] > kMostRows || dims[1] > kMostRows)
      return Bad(absl::StrCat(name, " has more than ", kMostRows, " experts, or slots of each"));
    if (g == 0) shape->capacity = dims[1];
    if (groups[g]->dtype != shape->dtype || dims[1] != shape->capacity ||
        !std::equal(dims.begin() + 2, dims.end(), shape->row_dims.begin(), shape->row_dims.end()))
      return Bad(absl::StrCat(name, " must hold ", shape->capacity, " rows of the source for each expert, and is ",
                              buffers::ToString(*groups[g])));
    shape->experts.push_back(dims[0]);
  }
  if (shape->num_experts() < 1) return Bad("a route needs an expert");
  if (shape->num_experts() > kMostRows || shape->num_experts() * std::max<int64_t>(shape->capacity, 1) > kMostRows)
    return Bad(absl::StrCat("the experts of a route have more than ", kMostRows, " slots together"));
  return absl::OkStatus();
}

absl::Status CheckSlots(Specs slots, Specs rows, const RouteShape& shape) {
  for (size_t g = 0; g < slots.size(); ++g)
    PW_RETURN_IF_ERROR(CheckKeys(*slots[g], {shape.experts[g], shape.capacity}, *rows[g], absl::StrCat("slots ", g)));
  return absl::OkStatus();
}

absl::Status FillOut(Specs inputs, Specs outputs, RouteShape* shape) {
  const auto groups = static_cast<size_t>(shape->groups);
  if (inputs.size() != 2 || (outputs.size() != groups && outputs.size() != 3 * groups))
    return Bad(absl::StrCat("a route to ", groups, " groups has 2 inputs and ", groups, " or ", 3 * groups, " outputs, not ",
                            inputs.size(), " and ", outputs.size()));
  shape->has_slots = outputs.size() != groups;
  PW_RETURN_IF_ERROR(TakeSource(*inputs[0], "the source", shape));
  PW_RETURN_IF_ERROR(CheckKeys(*inputs[1], {shape->rows}, *inputs[0], "the array that says where rows go"));
  PW_RETURN_IF_ERROR(TakeGroups(outputs.first(groups), "output", shape));
  if (!shape->has_slots) return absl::OkStatus();
  PW_RETURN_IF_ERROR(CheckSlots(outputs.subspan(groups, groups), outputs.first(groups), *shape));
  for (size_t g = 0; g < groups; ++g)
    PW_RETURN_IF_ERROR(CheckKeys(*outputs[2 * groups + g], {shape->experts[g]}, *outputs[g], absl::StrCat("counts ", g)));
  return absl::OkStatus();
}

absl::Status FillBack(Specs inputs, Specs outputs, RouteShape* shape) {
  const auto groups = static_cast<size_t>(shape->groups);
  if (inputs.size() != 2 * groups || outputs.size() != 1)
    return Bad(absl::StrCat("a route back from ", groups, " groups has ", 2 * groups, " inputs and 1 output, not ", inputs.size(),
                            " and ", outputs.size()));
  PW_RETURN_IF_ERROR(TakeSource(*outputs[0], "the output", shape));
  PW_RETURN_IF_ERROR(TakeGroups(inputs.first(groups), "input", shape));
  return CheckSlots(inputs.subspan(groups), inputs.first(groups), *shape);
}

}  // namespace

int64_t RouteShape::num_experts() const { return std::accumulate(experts.begin(), experts.end(), int64_t{0}); }

absl::StatusOr<RouteShape> ShapeOfRoute(const Node& node) {
  RouteShape shape;
  shape.back = node.back;
  shape.groups = node.groups;
  if (shape.groups < 1) return Bad("a route needs a group of experts");
  PW_RETURN_IF_ERROR(shape.back ? FillBack(node.takes, node.outputs, &shape) : FillOut(node.takes, node.outputs, &shape));
  return shape;
}

RowRange RowsOfTile(const buffers::ArraySpec& spec, int64_t tile) {
  const buffers::Region region = spec.sharding.TileRegion(spec.dims, tile);
  return {region.start[0], region.size[0]};
}

}  // namespace pw::program
