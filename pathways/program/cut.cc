#include "pathways/program/cut.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/sort_and_merge.h"
#include "pathways/base/status_macros.h"

namespace pw::program {
namespace {

namespace v1 = ::pathways::v1;
using SpecPtr = std::shared_ptr<const buffers::ArraySpec>;

// A set of waiting nodes for each node, one bit per waiting node. For the largest program they take 32 MiB.
class Sets {
 public:
  Sets(size_t nodes, size_t waiting) : words_((waiting + 63) / 64), bits_(nodes * words_) {}
  absl::Span<const uint64_t> Of(int node) const { return absl::MakeConstSpan(bits_).subspan(Begin(node), words_); }
  void Add(int node, int waiting) { bits_[Begin(node) + waiting / 64] |= uint64_t{1} << (waiting % 64); }
  void AddAll(int node, int of) {
    for (size_t w = 0; w < words_; ++w) bits_[Begin(node) + w] |= bits_[Begin(of) + w];
  }

 private:
  size_t Begin(int node) const { return static_cast<size_t>(node) * words_; }
  const size_t words_;
  std::vector<uint64_t> bits_;
};

constexpr int kNobody = -1, kSeveral = -2;

int64_t BytesOf(const Node& node) {
  return static_cast<int64_t>(sizeof(Node) + node.location.size() + (node.inputs.size() + node.num_outputs) * sizeof(int));
}

// The entries of a list that a part uses, numbered anew.
struct Used {
  int Number(int number_in_list) {
    const auto [it, fresh] = numbers.try_emplace(number_in_list, static_cast<int>(all.size()));
    if (fresh) all.push_back(number_in_list);
    return it->second;
  }
  std::vector<int> all;
  absl::flat_hash_map<int, int> numbers;
};

class Cutter {
 public:
  Cutter(const Program& program, absl::Span<const ExecutablePtr> executables, bool is_branch, CutRoom& room)
      : program_(program), executables_(executables), is_branch_(is_branch), room_(room), shardings_(program.proto.get()) {}

  absl::StatusOr<Cut> Run() {
    PW_RETURN_IF_ERROR(FindSpecs());
    MakeSteps();
    PW_RETURN_IF_ERROR(TakeParts());
    SortSteps();
    for (Step& step : cut_.steps) Connect(step);
    for (Step& step : cut_.steps) {
      if (step.part >= 0) PW_RETURN_IF_ERROR(Write(step));
    }
    return std::move(cut_);
  }

 private:
  int nodes() const { return static_cast<int>(program_.nodes.size()); }

  absl::Status FindSpecs() {
    for (int n = 0; n < nodes(); ++n) PW_RETURN_IF_ERROR(program_.At(n, AddSpecs(program_.nodes[n])));
    return absl::OkStatus();
  }

  absl::Status AddSpecs(const Node& node) {
    if (node.kind == NodeKind::kArg) cut_.specs.push_back(node.spec);
    if (node.waits()) cut_.specs.insert(cut_.specs.end(), node.outputs.begin(), node.outputs.end());
    if (node.kind == NodeKind::kTransfer) {
      auto spec = std::make_shared<buffers::ArraySpec>(*cut_.specs[node.inputs[0]]);
      const int rank = static_cast<int>(spec->dims.size());
      PW_ASSIGN_OR_RETURN(spec->sharding, shardings_.Of(static_cast<uint32_t>(node.sharding), rank));
      spec->layout.clear();
      PW_RETURN_IF_ERROR(buffers::Validate(*spec));
      PW_RETURN_IF_ERROR(TakeBytes(sizeof(*spec) + rank * sizeof(int64_t)));
      cut_.specs.push_back(std::move(spec));
    }
    if (node.kind == NodeKind::kCompute) {
      const Executable& executable = *executables_[node.executable];
      const int made = static_cast<int>(executable.output_specs->size());
      if (node.num_outputs != made)
        return absl::InvalidArgumentError(
            absl::StrCat("program ", executable.name, " has ", made, " results, not ", node.num_outputs));
      for (int i = 0; i < made; ++i) cut_.specs.push_back(executable.output_spec(i));
    }
    return absl::OkStatus();
  }

  absl::Status TakeBytes(int64_t bytes) {
    room_.bytes -= bytes;
    if (room_.bytes >= 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("program ", program_.name, " falls into parts, between the nodes that wait for values, of more than ",
                     CutRoom().bytes >> 20, " MiB: make several programs of it, or let fewer arrays cross between parts"));
  }

  absl::Status TakeParts() {
    for (const Step& step : cut_.steps) room_.parts -= step.node < 0;
    if (room_.parts >= 0) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("program ", program_.name, " falls into more than ", CutRoom().parts,
                                                     " parts between the nodes that wait for values: make several of it"));
  }

  // Returns, for each node, the waiting nodes on which it depends.
  Sets WaitsFor(const std::vector<int>& waiting) const {
    Sets sets(program_.nodes.size(), waiting.size());
    for (int n = 0; n < nodes(); ++n) {
      for (int value : program_.nodes[n].inputs) sets.AddAll(n, program_.producer_of[value]);
      for (int value : program_.nodes[n].inputs) {
        const int maker = program_.producer_of[value];
        if (program_.nodes[maker].waits()) sets.Add(n, NumberOf(waiting, maker));
      }
    }
    return sets;
  }

  // Returns, for each node, the waiting nodes that depend on it.
  Sets AwaitedBy(const std::vector<int>& waiting) const {
    Sets sets(program_.nodes.size(), waiting.size());
    for (int n = nodes() - 1; n >= 0; --n) {
      for (int value : program_.nodes[n].inputs) {
        const int maker = program_.producer_of[value];
        sets.AddAll(maker, n);
        if (program_.nodes[n].waits()) sets.Add(maker, NumberOf(waiting, n));
      }
    }
    return sets;
  }

  static int NumberOf(const std::vector<int>& waiting, int node) {
    return static_cast<int>(std::lower_bound(waiting.begin(), waiting.end(), node) - waiting.begin());
  }

  void MakeSteps() {
    std::vector<int> waiting;  // nodes, ascending
    for (int n = 0; n < nodes(); ++n) {
      if (program_.nodes[n].waits()) waiting.push_back(n);
    }
    const Sets waits_for = WaitsFor(waiting), awaited_by = AwaitedBy(waiting);
    absl::flat_hash_map<std::pair<absl::Span<const uint64_t>, absl::Span<const uint64_t>>, int> step_of_sets;
    step_of_.resize(program_.nodes.size(), -1);
    int result = 0;
    for (int n = 0; n < nodes(); ++n) {
      const Node& node = program_.nodes[n];
      if (node.kind == NodeKind::kArg) continue;
      int next = static_cast<int>(cut_.steps.size());
      if (!node.waits()) next = step_of_sets.try_emplace(std::pair(waits_for.Of(n), awaited_by.Of(n)), next).first->second;
      if (next == static_cast<int>(cut_.steps.size())) {
        cut_.steps.emplace_back().node = node.waits() ? n : -1;
        members_.emplace_back();
      }
      step_of_[n] = next;
      members_[next].push_back(n);
      if (node.kind == NodeKind::kResult) cut_.steps[next].results.push_back(result++);
    }
  }

  // CU-1. Steps form no cycles: along an edge, WaitsFor only grows, and AwaitedBy only shrinks.
  void SortSteps() {
    const int count = static_cast<int>(cut_.steps.size());
    std::vector<std::vector<int>> after(count);  // lists a step once for each value that it takes
    std::vector<int> before(count, 0);
    for (int n = 0; n < nodes(); ++n) {
      for (int value : program_.nodes[n].inputs) {
        const int from = step_of_[program_.producer_of[value]], to = step_of_[n];
        if (from < 0 || from == to) continue;
        after[from].push_back(to);
        ++before[to];
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> free;
    for (int s = 0; s < count; ++s) {
      if (before[s] == 0) free.push(s);
    }
    std::vector<Step> sorted;
    std::vector<std::vector<int>> members;
    std::vector<int> place(count);
    while (!free.empty()) {
      const int s = free.top();
      free.pop();
      place[s] = static_cast<int>(sorted.size());
      sorted.push_back(std::move(cut_.steps[s]));
      members.push_back(std::move(members_[s]));
      for (int next : after[s]) {
        if (--before[next] == 0) free.push(next);
      }
    }
    cut_.steps = std::move(sorted);
    members_ = std::move(members);
    for (int& step : step_of_) step = step < 0 ? step : place[step];
    FindTakers();
  }

  // Finds, for each value, the step that takes it, beside the step that makes it.
  void FindTakers() {
    taker_.resize(program_.producer_of.size(), kNobody);
    for (int n = 0; n < nodes(); ++n) {
      for (int value : program_.nodes[n].inputs) {
        if (step_of_[program_.producer_of[value]] == step_of_[n]) continue;
        taker_[value] = taker_[value] == kNobody || taker_[value] == step_of_[n] ? step_of_[n] : kSeveral;
      }
    }
  }

  void Connect(Step& step) {
    const int self = static_cast<int>(&step - cut_.steps.data());
    if (step.node >= 0) {
      const Node& node = program_.nodes[step.node];
      step.inputs = node.inputs;
      for (int i = 0; i < node.num_outputs; ++i) step.outputs.push_back(node.first_output + i);
      return;
    }
    for (int n : members_[self]) {
      const Node& node = program_.nodes[n];
      for (int value : node.inputs) {
        if (step_of_[program_.producer_of[value]] != self) step.inputs.push_back(value);
      }
      for (int i = 0; i < node.num_outputs; ++i) {
        if (taker_[node.first_output + i] != kNobody) step.outputs.push_back(node.first_output + i);
      }
    }
    SortAndMerge(step.inputs);
    step.part = static_cast<int>(cut_.parts.size());
    cut_.parts.emplace_back();
  }

  // Writes the part's program: its Args, nodes and Results.
  absl::Status Write(const Step& step) {
    const int self = static_cast<int>(&step - cut_.steps.data());
    part_ = &cut_.parts[step.part];
    part_->program.name = program_.name;
    renamed_.clear();
    part_shardings_ = part_executables_ = Used();
    for (int value : step.inputs) {
      const int maker = program_.producer_of[value];
      Node& arg = Add(maker, NodeKind::kArg);
      arg.spec = cut_.specs[value];
      arg.location = program_.nodes[maker].location;
      const bool given =
          program_.nodes[maker].kind != NodeKind::kArg || (program_.nodes[maker].donated && !program_.nodes[maker].apart);
      arg.donated = !is_branch_ && given && taker_[value] != kSeveral;  // CU-3
      Make(arg, 1, value);
      PW_RETURN_IF_ERROR(TakeBytes(BytesOf(arg)));
    }
    for (int n : members_[self]) {
      if (program_.nodes[n].kind == NodeKind::kResult) continue;
      Copy(n);
      PW_RETURN_IF_ERROR(TakeBytes(BytesOf(part_->program.nodes.back())));
    }
    for (int value : step.outputs) {
      Node& made = Add(program_.producer_of[value], NodeKind::kResult);
      made.inputs = {renamed_.at(value)};
      PW_RETURN_IF_ERROR(TakeBytes(BytesOf(made)));
    }
    for (int result : step.results) {
      const int n = program_.results[result];
      Node& made = Add(n, NodeKind::kResult);
      made.inputs = {renamed_.at(program_.nodes[n].inputs[0])};
      made.location = program_.nodes[n].location;
      PW_RETURN_IF_ERROR(TakeBytes(BytesOf(made)));
    }
    return Seal();
  }

  Node& Add(int number, NodeKind kind) {
    Program& program = part_->program;
    const int n = static_cast<int>(program.nodes.size());
    if (kind == NodeKind::kArg) program.args.push_back(n);
    if (kind == NodeKind::kResult) program.results.push_back(n);
    Node& node = program.nodes.emplace_back();
    node.kind = kind;
    node.number = program_.nodes[number].number < 0 ? number : program_.nodes[number].number;
    node.first_output = static_cast<int>(program.producer_of.size());
    return node;
  }

  void Make(Node& node, int count, int first_value) {
    node.num_outputs = count;
    for (int i = 0; i < count; ++i) renamed_[first_value + i] = node.first_output + i;
    part_->program.producer_of.resize(node.first_output + count, static_cast<int>(part_->program.nodes.size()) - 1);
  }

  void Copy(int n) {
    const Node& from = program_.nodes[n];
    Node& node = Add(n, from.kind);
    node.location = from.location;
    for (int value : from.inputs) node.inputs.push_back(renamed_.at(value));
    if (from.kind == NodeKind::kTransfer) node.sharding = part_shardings_.Number(from.sharding);
    if (from.kind == NodeKind::kCompute) node.executable = part_executables_.Number(from.executable);
    Make(node, from.num_outputs, from.first_output);
  }

  // Copies the shardings and executables that the part refers to from the client's message.
  absl::Status Seal() {
    auto proto = std::make_shared<v1::Program>();
    for (int sharding : part_shardings_.all) *proto->add_shardings() = program_.proto->shardings(sharding);
    part_->executables = std::move(part_executables_.all);
    for (int executable : part_->executables) {
      const v1::ProgramExecutable& from = program_.proto->executables(executable);
      v1::ProgramExecutable& to = *proto->add_executables();
      to.set_num_replicas(from.num_replicas());
      to.set_num_partitions(from.num_partitions());
      *to.mutable_devices() = from.devices();
    }
    part_->program.proto = std::move(proto);
    return TakeBytes(
        static_cast<int64_t>(sizeof(Part) + sizeof(Step) + part_->program.name.size() + part_->program.proto->SpaceUsedLong()));
  }

  const Program& program_;
  const absl::Span<const ExecutablePtr> executables_;
  const bool is_branch_;
  CutRoom& room_;
  Shardings shardings_;
  Cut cut_;
  std::vector<int> step_of_;                // by node; -1: an Arg
  std::vector<std::vector<int>> members_;   // nodes, by step
  std::vector<int> taker_;                  // step, kNobody or kSeveral, by value
  Part* part_ = nullptr;                    // the part being written
  absl::flat_hash_map<int, int> renamed_;   // the part's value for each of the program's
  Used part_shardings_, part_executables_;  // those of the program that the part uses
};

}  // namespace

bool WaitsForValues(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) { return node.waits(); });
}

absl::StatusOr<Cut> CutProgram(const Program& program, absl::Span<const ExecutablePtr> executables, bool is_branch,
                               CutRoom& room) {
  return Cutter(program, executables, is_branch, room).Run();
}

}  // namespace pw::program
