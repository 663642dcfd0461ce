#include "pathways/controller/programs/program_errors.h"

#include <algorithm>

#include "absl/functional/function_ref.h"

namespace pw::controller {
namespace {

using program::Node;
using program::NodeKind;
using program::Program;

absl::Status AtFirst(const Program& program, const absl::Status& status, absl::FunctionRef<bool(const Node&)> concerned) {
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    if (concerned(program.nodes[n])) return program.At(static_cast<int>(n), status);
  }
  for (const Program& branch : program.branches) {
    absl::Status located = AtFirst(branch, status, concerned);
    if (located != status) return located;
  }
  return status;
}

}  // namespace

absl::Status AtUserOf(const Program& program, int executable, const absl::Status& status) {
  return AtFirst(program, status, [&](const Node& node) { return node.executable == executable; });
}

absl::Status AtUserOf(const Program& program, const absl::flat_hash_set<DeviceId>& devices, const absl::Status& status) {
  const auto any = [&](const auto& numbers) {
    return std::any_of(numbers.begin(), numbers.end(), [&](auto number) { return devices.contains(DeviceId(number)); });
  };
  const ::pathways::v1::Program& proto = *program.proto;
  return AtFirst(program, status, [&](const Node& node) {
    switch (node.kind) {
      case NodeKind::kArg:
        return any(node.spec->sharding.devices());
      case NodeKind::kTransfer:
        return any(proto.shardings(node.sharding).devices());
      case NodeKind::kCompute:
      case NodeKind::kHostCompute:
        return any(proto.executables(node.executable).devices());
      case NodeKind::kRoute:
        return std::any_of(node.outputs.begin(), node.outputs.end(),
                           [&](const auto& output) { return any(output->sharding.devices()); });
      default:
        return false;
    }
  });
}

}  // namespace pw::controller
