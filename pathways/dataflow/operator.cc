#include "pathways/dataflow/operator.h"

#include "absl/strings/str_cat.h"

namespace pw::dataflow {

absl::StatusOr<std::unique_ptr<Operator>> Operators::Make(const OperatorContext& context) const {
  const Node& node = context.graph.node(context.node);
  auto it = factories_.find(node.op);
  if (it == factories_.end()) {
    return absl::UnimplementedError(absl::StrCat(context.self == kControllerHost ? "the controller" : ToString(context.self),
                                                 " knows no operator '", node.op, "' (node '", node.name,
                                                 "'); controller and workers must be of one version"));
  }
  return it->second(context);
}

}  // namespace pw::dataflow
