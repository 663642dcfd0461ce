#include "pathways/worker/execute/program_runs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/program/command_template.h"

namespace pw::worker {
namespace {

namespace v1 = pathways::v1;

// A local op: the kLocalOp bit, the run, the command's index in the run.
constexpr int kCommandBits = 22;
constexpr uint64_t kMostCommands = uint64_t{1} << kCommandBits;

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

constexpr uint64_t LocalOp(uint64_t run, uint64_t command) { return Outbox::kLocalOp | (run << kCommandBits) | command; }

}  // namespace

ProgramRuns::ProgramRuns(Core* core, Dispatch dispatch) : core_(core), dispatch_(std::move(dispatch)) {
  core_->outbox.SetLocal(
      [this](uint64_t op, const absl::Status& status, double microseconds) { Completed(op, status, microseconds); });
}

void ProgramRuns::Load(const v1::LoadProgram& command) {
  if (core_->ended.contains(SessionId(command.session()))) return;
  std::shared_ptr<Loaded>& program = programs_[command.program()];
  if (program == nullptr) program = std::make_shared<Loaded>();
  program->session = SessionId(command.session());
  for (const v1::Command& part : command.commands()) {
    const program::SlotCounts counts = program::CountSlots(part);
    program->args = std::max(program->args, counts.args);
    program->results = std::max(program->results, counts.results);
    program->error.Update(program::CheckTemplate(part, counts.args, counts.results));
    program->templates.push_back(part);
  }
  if (program->templates.size() >= kMostCommands)
    program->error.Update(absl::ResourceExhaustedError("a program has too many commands for one host"));
  program->bound = program->templates;
}

void ProgramRuns::Run(const v1::RunProgram& command) {
  auto it = programs_.find(command.program());
  const std::shared_ptr<Loaded> program = it == programs_.end() ? nullptr : it->second;
  if (program == nullptr)
    return Refuse(command, absl::NotFoundError(absl::StrCat("program ", command.program(), " is not loaded on this host")));
  if (!program->error.ok()) return Refuse(command, program->error);
  if (program->args > static_cast<size_t>(command.args_size()) ||
      program->results > static_cast<size_t>(command.results_size())) {
    return Refuse(command, absl::InvalidArgumentError(absl::StrCat(
                               "program ", command.program(), " takes ", program->args, " arguments and makes ", program->results,
                               " results on this host, not ", command.args_size(), " and ", command.results_size())));
  }
  const uint64_t number = next_run_++;
  Underway& run = runs_[number];
  run.op = command.op();
  run.left = 1;  // one for this function
  run.program = program;
  run.results.assign(command.results().begin(), command.results().end());
  const program::Binding binding{{command.args().data(), static_cast<size_t>(command.args_size())},
                                 {command.results().data(), static_cast<size_t>(command.results_size())},
                                 command.base(),
                                 command.session()};
  for (const v1::Command& part : program->templates) run.left += program::HasOp(part) ? 1 : 0;
  for (size_t i = 0; i < program->templates.size(); ++i)
    program::Bind(program->templates[i], binding, LocalOp(number, i), &program->bound[i]);
  BindStages(command, program.get(), &run);
  for (const Stage& stage : run.stages) {
    if (stage.op != 0 && stage.left == 0) core_->outbox.Done(stage.op, absl::OkStatus());
  }
  for (size_t i = 0; i < program->templates.size(); ++i) dispatch_(program->bound[i]);
  CountDown(number);
}

void ProgramRuns::BindStages(const v1::RunProgram& command, Loaded* program, Underway* run) {
  size_t i = 0;
  auto bind = [&](uint64_t grant, uint64_t gang, size_t end) {
    size_t executes = 0;
    for (; i < std::min(end, program->bound.size()); ++i) {
      if (!program->bound[i].has_execute()) continue;
      ++executes;
      program->bound[i].mutable_execute()->set_grant(grant);
      program->bound[i].mutable_execute()->set_gang(gang);
    }
    return executes;
  };
  for (const v1::RunProgram::Stage& stage : command.stages()) {
    const size_t end = i + stage.commands();
    const size_t executes = bind(stage.grant(), stage.gang(), end);
    run->stages.push_back({stage.op(), static_cast<uint32_t>(end), executes, 0});
  }
  bind(command.grant(), command.gang(), program->bound.size());
}

void ProgramRuns::Completed(uint64_t local_op, const absl::Status& status, double device_microseconds) {
  const uint64_t number = (local_op & ~Outbox::kLocalOp) >> kCommandBits;
  auto it = runs_.find(number);
  if (it == runs_.end()) return;
  Underway& run = it->second;
  const uint32_t command = static_cast<uint32_t>(local_op & (kMostCommands - 1));
  if (run.stages.empty())
    run.device_microseconds += device_microseconds;
  else if (run.program->templates[command].has_execute())
    ExecutedInStage(&run, command, device_microseconds);
  if (!status.ok() && (run.error.ok() || command < run.first_failed)) {
    run.error = status;
    run.first_failed = command;
  }
  CountDown(number);
}

void ProgramRuns::ExecutedInStage(Underway* run, uint32_t command, double device_microseconds) {
  auto stage = std::partition_point(run->stages.begin(), run->stages.end(), [&](const Stage& s) { return s.end <= command; });
  if (stage == run->stages.end()) return;  // after the last stage: part of the run alone
  stage->device_microseconds += device_microseconds;
  if (--stage->left == 0 && stage->op != 0) core_->outbox.Done(stage->op, absl::OkStatus(), stage->device_microseconds);
}

void ProgramRuns::CountDown(uint64_t number) {
  auto it = runs_.find(number);
  if (--it->second.left > 0) return;
  const Underway done = std::move(it->second);
  runs_.erase(it);
  Finish(done);
}

// Finds the poisoned results by looking at the results themselves. A result released meanwhile has no owner any more.
void ProgramRuns::Finish(const Underway& run) {
  if (!run.error.ok()) {
    bool first_told = false;
    for (size_t r = 0; r < run.results.size(); ++r) {
      const ShardRef failed = FindFailed(core_->store, ArrayId(run.results[r]));
      if (failed == nullptr) continue;
      core_->outbox.Poisoned(run.op, failed->error(), {static_cast<uint32_t>(r)});
      first_told = first_told || failed->error() == run.error;
    }
    if (!first_told) core_->outbox.Poisoned(run.op, run.error, {});
  }
  core_->outbox.Done(run.op, absl::OkStatus(), run.device_microseconds);
}

void ProgramRuns::Refuse(const v1::RunProgram& command, const absl::Status& error) {
  for (uint64_t result : command.results()) core_->store.Poison(ArrayId(result), error, SessionId(command.session()));
  for (const v1::RunProgram::Stage& stage : command.stages()) {
    if (stage.op() != 0) core_->outbox.Done(stage.op(), error);
  }
  core_->outbox.Done(command.op(), error);
}

void ProgramRuns::ReleaseOwner(SessionId session) {
  absl::erase_if(programs_, [session](const auto& entry) { return entry.second->session == session; });
}

}  // namespace pw::worker
