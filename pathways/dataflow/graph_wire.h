// Graphs as bytes (proto/pathways/v1/dataflow.proto). Whatever the bytes are, parsing returns a valid graph or a status.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph.h"
#include "pathways/v1/dataflow.pb.h"

namespace pw::dataflow {

// Placements that nodes share are written once.
::pathways::v1::dataflow::Graph ToProto(const Graph& graph);
absl::StatusOr<std::shared_ptr<const Graph>> FromProto(const ::pathways::v1::dataflow::Graph& proto);
// INVALID_ARGUMENT: not a graph, or one that Graph::Create refuses.
absl::StatusOr<std::shared_ptr<const Graph>> ParseGraph(std::string_view bytes);

}  // namespace pw::dataflow
