#include "pathways/worker/execute/program_nodes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/command_template.h"

namespace pw::worker {
namespace {

namespace v1 = pathways::v1;

// A local op: the kLocalOp bit, the run, the command's number in the run.
constexpr int kCommandBits = 22;
constexpr uint64_t kMostCommands = uint64_t{1} << kCommandBits;
constexpr uint32_t kNoStage = UINT32_MAX;

// Returns a failed shard of the array, or null.
ShardRef FindFailed(const ObjectStore& store, ArrayId array) {
  ShardRef failed = store.Find(array, 0);
  if (failed != nullptr && failed->failed()) return failed;
  failed = nullptr;
  store.ForEachShard(array, [&](int, const ShardRef& shard) {
    if (failed == nullptr && shard->failed()) failed = shard;
  });
  return failed;
}

SessionId SessionOf(const v1::ProgramRun& run) { return SessionOr(run.session(), run.op()); }

constexpr uint64_t LocalOp(uint64_t run, uint64_t command) { return Outbox::kLocalOp | (run << kCommandBits) | command; }

}  // namespace

class ProgramNodes::Node : public dataflow::Operator {
 public:
  Node(BeginningRef beginning, Templates* templates) : beginning_(std::move(beginning)), templates_(templates) {}
  void OnStart(dataflow::Shard& shard) override {
    if (beginning_->number != kRepeated) beginning_->nodes->Begin(beginning_->number, templates_);
    shard.Finish();
  }

 private:
  const BeginningRef beginning_;
  Templates* const templates_;
};

ProgramNodes::ProgramNodes(WorkerContext* context, ObjectStore* store, Dispatch dispatch)
    : context_(context), store_(store), dispatch_(std::move(dispatch)) {
  context_->outbox().SetLocal(
      [this](uint64_t op, const absl::Status& status, double microseconds) { Completed(op, status, microseconds); });
}

dataflow::Operators ProgramNodes::Operators() {
  dataflow::Operators operators;
  operators.Add(program::kNodeOperator, [this](const dataflow::OperatorContext& context) { return Make(context); });
  return operators;
}

absl::StatusOr<std::unique_ptr<dataflow::Operator>> ProgramNodes::Make(const dataflow::OperatorContext& context) {
  PW_ASSIGN_OR_RETURN(BeginningRef beginning, BeginningOf(context));
  Templates* const templates = &beginning->program->nodes[context.graph.PositionOf(context.node)];
  return std::make_unique<Node>(std::move(beginning), templates);
}

// The nodes of a run are made one after another, and all before the first begins.
absl::StatusOr<ProgramNodes::BeginningRef> ProgramNodes::BeginningOf(const dataflow::OperatorContext& context) {
  if (BeginningRef known = beginning_.lock(); known != nullptr && known->run == context.run) return known;
  auto run = std::make_unique<Underway>();
  if (!run->message.ParseFromString(context.argument))
    return absl::InvalidArgumentError("the argument of a program's run does not parse");
  if (!IsNew(run->message)) {
    const BeginningRef repeated(new Beginning{this, kRepeated, context.run, ProgramOf(context.graph)});
    beginning_ = repeated;
    return repeated;
  }
  for (const v1::ProgramRun::Stage& stage : run->message.stages()) {
    run->stages.push_back({stage.op(), stage.executes(), stage.executes()});
    if (stage.op() != 0 && stage.executes() == 0) context_->outbox().Done(stage.op(), absl::OkStatus());
  }
  if (context_->recorder().on())
    context_->recorder().Instant(trace::Kind::kPrepare, "commands", "run_program", {.flow = run->message.op()});
  const uint64_t number = next_run_++;
  runs_[number] = std::move(run);
  const BeginningRef beginning(new Beginning{this, number, context.run, ProgramOf(context.graph)});
  beginning_ = beginning;
  return beginning;
}

void ProgramNodes::Refuse(const std::string& argument, const absl::Status& why) {
  v1::ProgramRun run;
  if (!run.ParseFromString(argument) || SessionOfName(run.op()) == SessionId()) return;  // it names no command
  if (context_->had().Has(HadCommands::Kind::kOp, run.op()) || !IsNew(run)) return;
  if (!context_->ended(SessionOf(run))) {
    for (uint64_t result : run.results()) store_->Poison(ArrayId(result), why, SessionOf(run));
  }
  for (const v1::ProgramRun::Stage& stage : run.stages()) {
    if (stage.op() != 0) context_->outbox().Done(stage.op(), why);
  }
  context_->outbox().Done(run.op(), why);
}

bool ProgramNodes::IsNew(const v1::ProgramRun& run) {
  using Kind = HadCommands::Kind;
  const bool is_new = context_->had().Begin(Kind::kOp, run.op());
  for (const v1::ProgramRun::Stage& stage : run.stages()) {
    if (stage.op() == 0) continue;
    if (is_new)
      context_->had().Begin(Kind::kOp, stage.op());
    else
      context_->outbox().DoneAgain(stage.op());
  }
  if (!is_new) context_->outbox().DoneAgain(run.op());
  return is_new;
}

ProgramNodes::ProgramRef ProgramNodes::ProgramOf(const dataflow::GraphPart& part) {
  if (auto it = programs_.find(&part); it != programs_.end() && !it->second->part.expired()) return it->second;
  absl::erase_if(programs_, [](const auto& entry) { return entry.second->part.expired(); });
  auto program = std::make_shared<Program>();
  program->part = part.weak_from_this();
  for (const auto& [id, node] : part.nodes()) program->nodes.push_back(Parse(node));
  programs_[&part] = program;
  return program;
}

ProgramNodes::Templates ProgramNodes::Parse(const dataflow::Node& node) {
  Templates templates;
  templates.name = node.name;
  v1::NodeCommands proto;
  if (!proto.ParseFromString(node.config)) {
    templates.error = absl::InvalidArgumentError(absl::StrCat("the commands of ", node.name, " do not parse"));
    return templates;
  }
  for (v1::Command& command : *proto.mutable_commands()) {
    const program::SlotCounts counts = program::CountSlots(command);
    templates.args = std::max(templates.args, counts.args);
    templates.results = std::max(templates.results, counts.results);
    templates.names = std::max(templates.names, counts.names);
    templates.spans = templates.spans || command.execute().launch() != 0;
    templates.error.Update(program::CheckTemplate(command, counts.args, counts.results));
    program::SetLocation(node.name, &command);
    templates.commands.push_back(std::move(command));
  }
  templates.bound = templates.commands;
  return templates;
}

void ProgramNodes::Run(const dataflow::GraphPart& part, v1::ProgramRun message, std::string where, Ended ended) {
  auto run = std::make_unique<Underway>();
  run->message = std::move(message);
  run->where = std::move(where);
  run->ended = std::move(ended);
  const uint64_t number = next_run_++;
  runs_[number] = std::move(run);
  const ProgramRef program = ProgramOf(part);
  for (Templates& node : program->nodes) Begin(number, &node);
  CountDown(number);
}

// Adds the run to the command's location in the user's program.
void ProgramNodes::AddPlace(const std::string& where, v1::Command* command) {
  std::string* location = nullptr;
  if (command->has_execute()) location = command->mutable_execute()->mutable_location();
  if (command->has_move()) location = command->mutable_move()->mutable_location();
  if (location != nullptr) absl::StrAppend(location, location->empty() ? "" : ", ", where);
}

void ProgramNodes::Begin(uint64_t number, Templates* node) {
  Underway* const run = runs_.at(number).get();
  const v1::ProgramRun& message = run->message;
  const auto args = static_cast<size_t>(message.args_size()), results = static_cast<size_t>(message.results_size());
  absl::Status named = node->error;
  if (named.ok()) named = CheckNames(message, *node);
  if (!named.ok()) return Refuse(run, *node, named);
  if (run->begun + node->commands.size() >= kMostCommands)
    return Refuse(run, *node, absl::ResourceExhaustedError("a program has too many commands for one host"));
  const program::Binding binding{{message.args().data(), args},
                                 {message.results().data(), results},
                                 message.base(),
                                 message.launches(),
                                 SessionOf(message).v};
  for (size_t i = 0; i < node->commands.size(); ++i) {
    program::Bind(node->commands[i], binding, LocalOp(number, run->begun++), &node->bound[i]);
    TakePlace(run, &node->bound[i]);
    if (!run->where.empty()) {
      program::SetLocation(node->name, &node->bound[i]);
      AddPlace(run->where, &node->bound[i]);
    }
    if (program::HasOp(node->commands[i])) ++run->left;
  }
  for (const v1::Command& command : node->bound) dispatch_(command);
}

absl::Status ProgramNodes::CheckNames(const v1::ProgramRun& run, const Templates& node) {
  const auto args = static_cast<size_t>(run.args_size()), results = static_cast<size_t>(run.results_size());
  if (node.args > args || node.results > results) {
    return absl::InvalidArgumentError(absl::StrCat("a node of a program takes ", node.args, " arguments and makes ", node.results,
                                                   " results on this host, not ", args, " and ", results));
  }
  if (node.names > 0 && !RequestName::HasRoom(run.base(), node.names - 1))
    return absl::InvalidArgumentError(
        absl::StrCat("a run of a program names no ", node.names, " arrays of its own: ", run.base()));
  if (node.spans && run.launches() == 0)
    return absl::InvalidArgumentError("a run of a program over several hosts has no numbers for its launches");
  return absl::OkStatus();
}

// Gives an Execute the grant of its stage.
void ProgramNodes::TakePlace(Underway* run, v1::Command* command) {
  uint32_t stage = kNoStage;
  if (command->has_execute()) {
    while (run->stage < run->stages.size() && run->stages[run->stage].to_begin == 0) ++run->stage;
    const bool staged = run->stage < run->stages.size();
    if (staged) {
      stage = static_cast<uint32_t>(run->stage);
      --run->stages[stage].to_begin;
    }
    const v1::ProgramRun& message = run->message;
    command->mutable_execute()->set_grant(staged ? message.stages(static_cast<int>(stage)).grant() : message.grant());
    command->mutable_execute()->set_gang(staged ? message.stages(static_cast<int>(stage)).gang() : message.gang());
  }
  if (!run->stages.empty()) run->stage_of.push_back(stage);
}

// The node's commands are not carried out. Its Executes count as completed.
void ProgramNodes::Refuse(Underway* run, const Templates& node, const absl::Status& error) {
  for (uint64_t result : run->message.results()) store_->Poison(ArrayId(result), error, SessionOf(run->message));
  if (run->error.ok()) {
    run->error = error;
    run->first_failed = run->begun;
  }
  for (const v1::Command& command : node.commands) {
    v1::Command refused = command;
    TakePlace(run, &refused);
    ++run->begun;
    if (!run->stage_of.empty()) Executed(run, run->stage_of.back(), 0);
  }
}

void ProgramNodes::Completed(uint64_t local_op, const absl::Status& status, double device_microseconds) {
  const uint64_t number = (local_op & ~Outbox::kLocalOp) >> kCommandBits;
  auto it = runs_.find(number);
  if (it == runs_.end()) return;
  Underway* const run = it->second.get();
  const auto command = static_cast<uint32_t>(local_op & (kMostCommands - 1));
  if (run->stages.empty())
    run->device_microseconds += device_microseconds;
  else
    Executed(run, run->stage_of[command], device_microseconds);
  if (!status.ok() && (run->error.ok() || command < run->first_failed)) {
    run->error = status;
    run->first_failed = command;
  }
  CountDown(number);
}

// `stage`: kNoStage for commands that are no Executes, and for those after the last stage.
void ProgramNodes::Executed(Underway* run, uint32_t stage, double device_microseconds) {
  if (stage == kNoStage) return;
  Stage& done = run->stages[stage];
  done.device_microseconds += device_microseconds;
  if (--done.left == 0 && done.op != 0) context_->outbox().Done(done.op, absl::OkStatus(), done.device_microseconds);
}

void ProgramNodes::CountDown(uint64_t number) {
  auto it = runs_.find(number);
  if (--it->second->left > 0) return;
  const std::unique_ptr<Underway> done = std::move(it->second);
  runs_.erase(it);
  Finish(*done);
}

// Finds the poisoned results by looking at the results themselves. A result released meanwhile has no owner any more.
void ProgramNodes::Finish(const Underway& run) {
  if (run.ended) return run.ended(run.error, run.device_microseconds);
  const uint64_t op = run.message.op();
  if (!run.error.ok()) {
    bool first_told = false;
    for (int r = 0; r < run.message.results_size(); ++r) {
      const ShardRef failed = FindFailed(*store_, ArrayId(run.message.results(r)));
      if (failed == nullptr) continue;
      context_->outbox().Poisoned(op, failed->error(), {static_cast<uint32_t>(r)});
      first_told = first_told || failed->error() == run.error;
    }
    if (!first_told) context_->outbox().Poisoned(op, run.error, {});
  }
  context_->outbox().Done(op, absl::OkStatus(), run.device_microseconds);
}

}  // namespace pw::worker
