#include "pathways/program/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/program/op_sharding.h"
#include "pathways/program/route.h"

namespace pw::program {
namespace {

namespace v1 = ::pathways::v1;

constexpr size_t kMaxLocation = 1024;
constexpr size_t kMaxRank = 256;
constexpr absl::string_view kMark = " [at ";

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

using Specs = std::vector<std::shared_ptr<const buffers::ArraySpec>>;

class Parser {
 public:
  explicit Parser(std::shared_ptr<const v1::Program> proto) : proto_(std::move(proto)), shardings_(proto_.get()) {}

  absl::StatusOr<Program> Parse() {
    program_.name = proto_->name().substr(0, kMaxLocation);
    int64_t nodes = proto_->nodes_size();
    for (const v1::ProgramBranch& branch : proto_->branches()) nodes += branch.nodes_size();
    if (nodes > kMaxNodes) return Bad(absl::StrCat("a program has at most ", kMaxNodes, " nodes, not ", nodes));
    if (proto_->branches_size() > kMaxBranches)
      return Bad(absl::StrCat("a program has at most ", kMaxBranches, " branches, not ", proto_->branches_size()));
    PW_RETURN_IF_ERROR(CheckExecutables());
    std::vector<Program> branches;
    for (const v1::ProgramBranch& branch : proto_->branches()) {
      program_ = Program();
      program_.name = branch.name().substr(0, kMaxLocation);
      program_.proto = proto_;
      branches_ = static_cast<uint32_t>(branches.size());
      PW_RETURN_IF_ERROR(AddNodes(branch.nodes()));
      branches.push_back(std::move(program_));
    }
    program_ = Program();
    program_.name = proto_->name().substr(0, kMaxLocation);
    program_.proto = proto_;
    branches_ = static_cast<uint32_t>(branches.size());
    PW_RETURN_IF_ERROR(AddNodes(proto_->nodes()));
    program_.branches = std::move(branches);
    return std::move(program_);
  }

 private:
  absl::Status CheckExecutables() const {
    for (int i = 0; i < proto_->executables_size(); ++i) {
      const v1::ProgramExecutable& executable = proto_->executables(i);
      const int64_t wanted = int64_t{executable.num_replicas()} * executable.num_partitions();
      if (executable.num_replicas() < 1 || executable.num_partitions() < 1 || wanted != executable.devices_size()) {
        return Bad(absl::StrCat("executable ", i, " of program ", program_.name, " has ", executable.num_replicas(),
                                " replicas and ", executable.num_partitions(), " partitions on ", executable.devices_size(),
                                " devices"));
      }
    }
    return absl::OkStatus();
  }

  // Takes the index of a node's executable, which is a Python function or none.
  absl::Status AddExecutable(uint32_t executable, bool python, Node& node) const {
    if (executable >= static_cast<uint32_t>(proto_->executables_size()))
      return Bad(absl::StrCat("there is no executable ", executable, "; the program has ", proto_->executables_size()));
    node.executable = static_cast<int>(executable);
    if ((proto_->executables(node.executable).format() == kHostFunctionFormat) == python) return absl::OkStatus();
    return Bad(absl::StrCat("executable ", executable,
                            python ? " is no Python function" : " is a Python function, which only a HostCompute calls"));
  }

  absl::Status AddNodes(const google::protobuf::RepeatedPtrField<v1::ProgramNode>& nodes) {
    int waiting = 0;
    for (const v1::ProgramNode& node : nodes) {
      absl::Status status = AddNode(node);
      if (program_.nodes.back().waits() && ++waiting > kMaxWaiting)
        status.Update(Bad(absl::StrCat("a program has at most ", kMaxWaiting, " nodes that wait for values")));
      if (!status.ok()) return program_.At(static_cast<int>(program_.nodes.size()) - 1, status);
    }
    return absl::OkStatus();
  }

  absl::Status AddNode(const v1::ProgramNode& proto) {
    Node& node = program_.nodes.emplace_back();
    node.location = proto.location().substr(0, kMaxLocation);
    node.first_output = static_cast<int>(program_.producer_of.size());
    PW_RETURN_IF_ERROR(Fill(proto, node));
    const int self = static_cast<int>(program_.nodes.size()) - 1;
    if (node.num_outputs < 0 || node.num_outputs > kMaxValues - node.first_output)
      return Bad(absl::StrCat("a program has at most ", kMaxValues, " values"));
    program_.producer_of.resize(node.first_output + node.num_outputs, self);
    if (node.kind == NodeKind::kArg) program_.args.push_back(self);
    if (node.kind == NodeKind::kResult) program_.results.push_back(self);
    return absl::OkStatus();
  }

  absl::Status Fill(const v1::ProgramNode& proto, Node& node) {
    switch (proto.kind_case()) {
      case v1::ProgramNode::kArg:
        return FillArg(proto.arg(), node);
      case v1::ProgramNode::kCompute:
        node.kind = NodeKind::kCompute;
        node.num_outputs = static_cast<int>(std::min<uint32_t>(proto.compute().num_outputs(), kMaxValues + 1));
        PW_RETURN_IF_ERROR(AddExecutable(proto.compute().executable(), false, node));
        for (uint32_t input : proto.compute().inputs()) PW_RETURN_IF_ERROR(AddInput(input, node));
        return absl::OkStatus();
      case v1::ProgramNode::kTransfer:
        node.kind = NodeKind::kTransfer;
        node.num_outputs = 1;
        node.sharding = static_cast<int>(proto.transfer().sharding());
        if (proto.transfer().sharding() >= static_cast<uint32_t>(proto_->shardings_size()))
          return Bad(absl::StrCat("there is no sharding ", proto.transfer().sharding()));
        return AddInput(proto.transfer().input(), node);
      case v1::ProgramNode::kResult:
        node.kind = NodeKind::kResult;
        return AddInput(proto.result().input(), node);
      case v1::ProgramNode::kHostCall:
        return FillHostCall(proto.host_call(), node);
      case v1::ProgramNode::kSelect:
        return FillSelect(proto.select(), node);
      case v1::ProgramNode::kHostCompute:
        return FillHostCompute(proto.host_compute(), node);
      case v1::ProgramNode::kWhileLoop:
        return FillWhile(proto.while_loop(), node);
      case v1::ProgramNode::kRoute:
        return FillRoute(proto.route(), node);
      case v1::ProgramNode::KIND_NOT_SET:
        return Bad("it is of no known kind");
    }
    return Bad("it is of no known kind");
  }

  absl::Status FillArg(const v1::ProgramNode::Arg& proto, Node& node) {
    node.kind = NodeKind::kArg;
    node.num_outputs = 1;
    node.donated = proto.donated();
    node.apart = proto.apart();
    PW_ASSIGN_OR_RETURN(node.spec, MakeSpec(proto));
    return absl::OkStatus();
  }

  template <class Typed>
  absl::StatusOr<std::shared_ptr<const buffers::ArraySpec>> MakeSpec(const Typed& proto) {
    auto spec = std::make_shared<buffers::ArraySpec>();
    PW_ASSIGN_OR_RETURN(spec->dtype, buffers::DTypeFromNumber(proto.dtype()));
    if (static_cast<size_t>(proto.dims_size()) > kMaxRank)
      return Bad(absl::StrCat("arrays have at most ", kMaxRank, " dimensions"));
    spec->dims.assign(proto.dims().begin(), proto.dims().end());
    PW_ASSIGN_OR_RETURN(spec->sharding, shardings_.Of(proto.sharding(), proto.dims_size()));
    PW_RETURN_IF_ERROR(buffers::Validate(*spec));
    return std::shared_ptr<const buffers::ArraySpec>(std::move(spec));
  }

  absl::Status FillHostCall(const v1::ProgramNode::HostCall& proto, Node& node) {
    node.kind = NodeKind::kHostCall;
    node.callback = proto.callback();
    node.function = proto.function().substr(0, kMaxLocation);
    for (uint32_t input : proto.inputs()) PW_RETURN_IF_ERROR(AddInput(input, node));
    PW_RETURN_IF_ERROR(AddOutputs(proto.outputs(), node));
    for (const auto& output : node.outputs) {
      if (buffers::HostBytes(output->dtype) == 0) return Bad("arrays of such a type cannot come from a function of the host");
      if (output->sharding.num_tiles() != 1)
        return Bad("what a function of the host makes is the same on all its devices: it cannot be cut into pieces");
    }
    return absl::OkStatus();
  }

  absl::Status FillSelect(const v1::ProgramNode::Select& proto, Node& node) {
    node.kind = NodeKind::kSelect;
    PW_RETURN_IF_ERROR(AddInput(proto.index(), node));
    for (uint32_t input : proto.inputs()) PW_RETURN_IF_ERROR(AddInput(input, node));
    if (proto.branches_size() == 0) return Bad("there is nothing to choose from");
    if (proto.branches_size() > kMaxBranches) return Bad(absl::StrCat("it chooses from more than ", kMaxBranches, " branches"));
    for (uint32_t branch : proto.branches()) {
      if (branch >= branches_) return Bad(absl::StrCat("there is no branch ", branch, " that it may use"));
      node.branches.push_back(static_cast<int>(branch));
    }
    return AddOutputs(proto.outputs(), node);
  }

  absl::Status FillWhile(const v1::ProgramNode::While& proto, Node& node) {
    node.kind = NodeKind::kWhile;
    PW_RETURN_IF_ERROR(AddInput(proto.predicate(), node));
    for (uint32_t input : proto.inputs()) PW_RETURN_IF_ERROR(AddInput(input, node));
    if (proto.turn() >= branches_) return Bad(absl::StrCat("there is no branch ", proto.turn(), " that could be its turn"));
    node.branches.push_back(static_cast<int>(proto.turn()));
    if (proto.outputs_size() > proto.inputs_size())
      return Bad(absl::StrCat("a loop with ", proto.inputs_size(), " inputs carries ", proto.outputs_size(), " arrays"));
    return AddOutputs(proto.outputs(), node);
  }

  absl::Status FillHostCompute(const v1::ProgramNode::HostCompute& proto, Node& node) {
    node.kind = NodeKind::kHostCompute;
    node.function = proto.function().substr(0, kMaxLocation);
    PW_RETURN_IF_ERROR(AddExecutable(proto.executable(), true, node));
    for (uint32_t input : proto.inputs()) PW_RETURN_IF_ERROR(AddInput(input, node));
    if (proto.takes_size() != proto.inputs_size())
      return Bad(
          absl::StrCat("a Python function has ", proto.inputs_size(), " inputs and ", proto.takes_size(), " types of inputs"));
    for (const v1::ProgramNode::Type& type : proto.takes()) {
      PW_ASSIGN_OR_RETURN(node.takes.emplace_back(), MakeSpec(type));
    }
    PW_RETURN_IF_ERROR(AddOutputs(proto.outputs(), node));
    const auto [known, is_new] = functions_.try_emplace(node.executable, node.takes, node.outputs);
    if (is_new || (Same(known->second.first, node.takes) && Same(known->second.second, node.outputs))) return absl::OkStatus();
    return Bad(absl::StrCat("the Python function ", node.function, " is called with other types than by another node"));  // PR-3
  }

  absl::Status FillRoute(const v1::ProgramNode::Route& proto, Node& node) {
    node.kind = NodeKind::kRoute;
    node.back = proto.back();
    node.groups = static_cast<int>(std::min<uint32_t>(proto.groups(), kMaxInputs));
    for (uint32_t input : proto.inputs()) PW_RETURN_IF_ERROR(AddInput(input, node));
    if (proto.takes_size() != proto.inputs_size())
      return Bad(absl::StrCat("a route has ", proto.inputs_size(), " inputs and ", proto.takes_size(), " types of inputs"));
    for (const v1::ProgramNode::Type& type : proto.takes()) {
      PW_ASSIGN_OR_RETURN(node.takes.emplace_back(), MakeSpec(type));
    }
    PW_RETURN_IF_ERROR(AddOutputs(proto.outputs(), node));
    return ShapeOfRoute(node).status();
  }

  static bool Same(const Specs& a, const Specs& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
      return one->dtype == other->dtype && one->dims == other->dims && one->sharding == other->sharding;
    });
  }

  absl::Status AddOutputs(const google::protobuf::RepeatedPtrField<v1::ProgramNode::Type>& types, Node& node) {
    for (const v1::ProgramNode::Type& type : types) {
      PW_ASSIGN_OR_RETURN(node.outputs.emplace_back(), MakeSpec(type));
    }
    node.num_outputs = types.size();
    return absl::OkStatus();
  }

  absl::Status AddInput(uint32_t value, Node& node) {
    if (++inputs_ > kMaxInputs) return Bad(absl::StrCat("the nodes of a program have at most ", kMaxInputs, " inputs together"));
    if (value >= static_cast<uint32_t>(node.first_output)) {
      return Bad(absl::StrCat("it uses value ", value,
                              ", which no node before it makes: nodes must stand in an order in which they "
                              "could run, so a program has no cycles"));
    }
    node.inputs.push_back(static_cast<int>(value));
    return absl::OkStatus();
  }

  const std::shared_ptr<const v1::Program> proto_;
  Shardings shardings_;
  std::map<int, std::pair<Specs, Specs>> functions_;  // what each Python function takes and makes, by its executable
  Program program_;                                   // the program or branch being parsed
  uint32_t branches_ = 0;                             // number of branches that its nodes may use
  int inputs_ = 0;                                    // number of inputs so far
};

}  // namespace

absl::StatusOr<buffers::Sharding> Shardings::Of(uint32_t index, int rank) {
  if (auto known = made_.find({index, rank}); known != made_.end()) return known->second;
  absl::StatusOr<buffers::Sharding> sharding = Make(index, rank);
  if (!sharding.ok()) return sharding;
  shards_ += sharding->num_shards();
  if (shards_ > kMaxShards) return Bad(absl::StrCat("the shardings of a program have at most ", kMaxShards, " shards together"));
  made_.insert({{index, rank}, *sharding});
  return sharding;
}

absl::StatusOr<buffers::Sharding> Shardings::Make(uint32_t index, int rank) const {
  if (index >= static_cast<uint32_t>(proto_->shardings_size())) {
    return Bad(absl::StrCat("there is no sharding ", index, "; the program has ", proto_->shardings_size()));
  }
  const v1::ProgramSharding& sharding = proto_->shardings(static_cast<int>(index));
  if (sharding.devices_size() == 0) return Bad("its sharding has no devices");
  std::vector<DeviceId> devices;
  for (int32_t id : sharding.devices()) devices.push_back(DeviceId(id));
  return OpShardingToSharding(sharding.op_sharding(), std::move(devices), sharding.memory_kind(), rank);
}

absl::Status WithLocation(const absl::Status& status, absl::string_view location) {
  if (status.ok() || location.empty() || absl::StrContains(status.message(), kMark)) return status;
  return WithPayloadsOf(status, absl::Status(status.code(), absl::StrCat(status.message(), kMark, location, "]")));
}

absl::Status WithLocationOf(const absl::Status& error, const absl::Status& status) {
  const size_t mark = error.message().rfind(kMark);
  if (mark == absl::string_view::npos || !absl::EndsWith(error.message(), "]")) return status;
  const absl::string_view location = error.message().substr(mark + kMark.size());
  return WithLocation(status, location.substr(0, location.size() - 1));
}

std::string Program::Describe(int node) const {
  const std::string& location = nodes[node].location;
  return absl::StrCat("node ", nodes[node].number < 0 ? node : nodes[node].number, " of ", name, location.empty() ? "" : ": ",
                      location);
}

absl::Status Program::At(int node, const absl::Status& status) const { return WithLocation(status, Describe(node)); }

absl::StatusOr<Program> ParseProgram(absl::string_view bytes) {
  auto proto = std::make_shared<v1::Program>();
  if (bytes.size() > INT32_MAX || !proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return Bad("the bytes of a program do not parse");
  return Parser(std::move(proto)).Parse();
}

}  // namespace pw::program
