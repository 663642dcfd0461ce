#include "pathways/controller/programs/program_entry.h"

#include <utility>

#include "pathways/program/op_sharding.h"

namespace pw::controller {

ValueInfo ToInfo(const buffers::ArraySpec& spec) {
  ValueInfo info;
  info.dtype = spec.dtype;
  info.shard_dims = spec.sharding.ShardDims(spec.dims, 0).value_or(buffers::Dims());
  info.op_sharding = program::ShardingToOpSharding(spec.sharding).SerializeAsString();
  info.layout = spec.layout;
  info.memory_kind = spec.sharding.memory_kind();
  return info;
}

std::vector<ProgramEntry::Argument> MakeArguments(const program::Program& program) {
  std::vector<ProgramEntry::Argument> arguments;
  for (int n : program.args) {
    const program::Node& node = program.nodes[n];
    if (!node.apart) {
      arguments.push_back({node.spec, nullptr, n, node.donated});
      continue;
    }
    for (int s = 0; s < node.spec->sharding.num_shards(); ++s) {
      auto spec = std::make_shared<buffers::ArraySpec>();
      spec->dtype = node.spec->dtype;
      spec->dims = node.spec->sharding.ShardDims(node.spec->dims, s).value_or(buffers::Dims());
      spec->sharding = buffers::Sharding::SingleDevice(node.spec->sharding.devices()[s], node.spec->sharding.memory_kind());
      arguments.push_back({std::move(spec), nullptr, n, node.donated});
    }
  }
  return arguments;
}

bool Fits(const buffers::ArraySpec& array, const buffers::ArraySpec& wanted) {
  return array.dtype == wanted.dtype && array.dims == wanted.dims && array.sharding.devices() == wanted.sharding.devices() &&
         array.sharding.tiles() == wanted.sharding.tiles();
}

}  // namespace pw::controller
