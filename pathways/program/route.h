// RouteShape: what a Route node of a program moves (proto/pathways/v1/program.proto), from the types of its inputs and outputs.
//
// Rows are cut along their first dimension alone: a shard holds consecutive rows, whole. Keys are cut as their rows, so each host reads the keys of
// the rows that it sends. Experts are numbered through the groups, in order.
//
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/program/program.h"

namespace pw::program {

// The operators of the nodes of a route's graph (route.proto).
inline constexpr char kRouteSend[] = "route-send";
inline constexpr char kRouteReceive[] = "route-receive";

struct RouteShape {
  bool back = false;
  int groups = 0;
  bool has_slots = false;  // out: the outputs have slots and counts, too
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims row_dims;  // of one row
  int64_t row_bytes = 0;
  int64_t rows = 0;              // where the rows come from when they go out
  int64_t capacity = 0;          // slots of each expert
  std::vector<int64_t> experts;  // of each group

  int64_t num_experts() const;
};

// Returns the shape of a Route node. INVALID_ARGUMENT says which input or output does not fit the others. REQUIRES: the node is a Route.
absl::StatusOr<RouteShape> ShapeOfRoute(const Node& node);

// Returns a tile's rows: the first one, and their number.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};
// REQUIRES: the array is cut along its first dimension alone, as those of a Route are.
RowRange RowsOfTile(const buffers::ArraySpec& spec, int64_t tile);

}  // namespace pw::program
