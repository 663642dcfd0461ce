// Serialization of graphs (proto/pathways/v1/dataflow.proto). Parsing arbitrary bytes returns a valid graph or an error.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph.h"
#include "pathways/v1/dataflow.pb.h"

namespace pw::dataflow {

// Writes each placement once, even if several nodes share it.
::pathways::v1::dataflow::Graph ToProto(const Graph& graph);
absl::StatusOr<std::shared_ptr<const Graph>> FromProto(const ::pathways::v1::dataflow::Graph& proto);
// INVALID_ARGUMENT: the bytes do not parse, or Graph::Create refuses the graph.
absl::StatusOr<std::shared_ptr<const Graph>> ParseGraph(std::string_view bytes);

}  // namespace pw::dataflow
