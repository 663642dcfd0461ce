#include "pathways/controller/cluster/observation/program_report.h"

#include <algorithm>
#include <set>

#include "pathways/base/json_writer.h"

namespace pw::controller {
namespace {

using program::NodeKind;

const char* NameOfKind(NodeKind kind) {
  switch (kind) {
    case NodeKind::kArg:
      return "argument";
    case NodeKind::kCompute:
      return "compute";
    case NodeKind::kTransfer:
      return "transfer";
    case NodeKind::kResult:
      return "result";
    case NodeKind::kHostCall:
      return "call";
    case NodeKind::kSelect:
      return "choice";
    case NodeKind::kHostCompute:
      return "function";
    case NodeKind::kWhile:
      return "loop";
    case NodeKind::kRoute:
      return "route";
  }
  return "";
}

// Returns the devices of the values that a node makes. A result makes none: it has those of its input.
std::vector<DeviceId> DevicesOfNode(const program::TypedProgram& typed, const program::Node& node) {
  const program::Program& program = typed.program;
  switch (node.kind) {
    case NodeKind::kArg:
      return node.spec->sharding.devices();
    case NodeKind::kCompute:
    case NodeKind::kHostCompute:
      return typed.executables[static_cast<size_t>(node.executable)]->devices;
    case NodeKind::kTransfer: {
      std::vector<DeviceId> devices;
      for (int32_t device : program.proto->shardings(node.sharding).devices()) devices.push_back(DeviceId(device));
      return devices;
    }
    case NodeKind::kResult:
      if (node.inputs.empty()) return {};
      return DevicesOfNode(typed,
                           program.nodes[static_cast<size_t>(program.producer_of[static_cast<size_t>(node.inputs.front())])]);
    case NodeKind::kHostCall:
    case NodeKind::kRoute:
    case NodeKind::kSelect:
    case NodeKind::kWhile: {
      std::set<DeviceId> devices;
      for (const auto& output : node.outputs)
        devices.insert(output->sharding.devices().begin(), output->sharding.devices().end());
      return {devices.begin(), devices.end()};
    }
  }
  return {};
}

}  // namespace

ProgramGraph GraphOf(const program::TypedProgram& typed,
                     absl::FunctionRef<std::vector<std::string>(const std::vector<DeviceId>&)> hosts_of) {
  const program::Program& program = typed.program;
  ProgramGraph graph;
  graph.name = program.name;
  graph.num_nodes = program.nodes.size();
  for (size_t n = 0; n < std::min(program.nodes.size(), ProgramGraph::kMostNodes); ++n) {
    const program::Node& node = program.nodes[n];
    const std::vector<DeviceId> devices = DevicesOfNode(typed, node);
    std::set<int> inputs;
    for (int value : node.inputs) inputs.insert(program.producer_of[static_cast<size_t>(value)]);
    ProgramGraph::Node& shown = graph.nodes.emplace_back();
    shown.kind = NameOfKind(node.kind);
    shown.name = node.kind == NodeKind::kCompute ? typed.executables[static_cast<size_t>(node.executable)]->name : node.function;
    shown.location = node.location;
    shown.devices = devices.size();
    shown.hosts = hosts_of(devices);
    shown.inputs.assign(inputs.begin(), inputs.end());
  }
  return graph;
}

std::string ToJson(const std::vector<ProgramGraph>& programs, size_t more) {
  JsonWriter json;
  json.BeginObject().Key("programs").BeginArray();
  for (const ProgramGraph& program : programs) {
    json.BeginObject().Key("client").Int(static_cast<int64_t>(program.session.v)).Key("id").Int(static_cast<int64_t>(program.id));
    json.Key("name").String(program.name).Key("num_nodes").Int(static_cast<int64_t>(program.num_nodes)).Key("nodes").BeginArray();
    for (const ProgramGraph::Node& node : program.nodes) {
      json.BeginObject().Key("kind").String(node.kind).Key("name").String(node.name).Key("at").String(node.location);
      json.Key("devices").Int(static_cast<int64_t>(node.devices)).Key("hosts").BeginArray();
      for (const std::string& host : node.hosts) json.String(host);
      json.EndArray().Key("inputs").BeginArray();
      for (int input : node.inputs) json.Int(input);
      json.EndArray().EndObject();
    }
    json.EndArray().EndObject();
  }
  return json.EndArray().Key("more").Int(static_cast<int64_t>(more)).EndObject().Take();
}

}  // namespace pw::controller
