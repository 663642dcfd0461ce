#include "pathways/controller/session/runs/program_steps.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/session/runs/sequential_run.h"

namespace pw::controller {

using program::Node;
using program::NodeKind;
using program::Step;

// State of a run whose steps are taken one after another.
struct ProgramSteps::Turns {
  std::shared_ptr<const Gangs::Barrier> place;  // of the whole run, in the order of the session's work
  std::function<void(StepsRun&)> done;          // called when its results exist or have failed
  std::vector<int> last_taken;                  // for each value the last step that takes it
  size_t next = 0;                              // the next step to begin
  size_t under_way = 0;                         // steps in flight
  bool advancing = false, again = false;
};

// State of a run in flight. The callbacks that it waits for hold it.
struct ProgramSteps::StepsRun {
  std::shared_ptr<const ProgramEntry> entry;
  std::vector<Record> values;
  std::vector<Record> results;
  std::shared_ptr<ExecuteRun> run;  // may be null
  std::unique_ptr<Turns> turns;     // null: all steps have begun at once
  NameScope names;                  // for its arguments and results
  std::vector<NameScope> names_of;  // for each step
  uint64_t stream;                  // of its functions on hosts
};

struct ProgramSteps::HostCallRun {
  StepsRef steps;
  int node = 0;
  HostCall call;
  size_t left = 0;  // operands that have not arrived
  absl::Status error;
  std::vector<Handle> operands;  // that the client fetches
  std::vector<Expected> outputs;
  NameScope end;  // names for its results
};

struct ProgramSteps::SelectRun {
  StepsRef steps;
  int node = 0;
  std::vector<Record> inputs;
  std::vector<Expected> outputs;
  NameScope branch, end;  // names for the chosen branch, and for what fulfils the outputs
};

ProgramSteps::StepsRef ProgramSteps::NewRun(const std::shared_ptr<const ProgramEntry>& entry, NameScope names,
                                            std::vector<Record> results, const std::shared_ptr<ExecuteRun>& run,
                                            uint64_t stream) {
  std::vector<NameScope> names_of;
  for (const NameNeed& need : entry->steps->needs) names_of.push_back(names.Take(need));
  return std::make_shared<StepsRun>(StepsRun{entry, std::vector<Record>(entry->steps->cut.specs.size()), std::move(results), run,
                                             nullptr, std::move(names), std::move(names_of), stream});
}

// REQUIRES: the step is one of the run's program.
NameScope& ProgramSteps::NamesOf(StepsRun& steps, const Step& step) {
  return steps.names_of[static_cast<size_t>(&step - steps.entry->steps->cut.steps.data())];
}

void ProgramSteps::Start(const std::shared_ptr<const ProgramEntry>& entry, NameScope names, const std::vector<Record>& args,
                         const std::vector<Record>& results, const std::shared_ptr<ExecuteRun>& run, uint64_t stream) {
  const program::Cut& cut = entry->steps->cut;
  StepsRef steps = NewRun(entry, std::move(names), results, run, stream);
  if (fabric_->sequential_dispatch()) return StartInTurn(std::move(steps), args);
  TakeArgs(*steps, args, false);
  for (const Step& step : cut.steps) StartStep(steps, step);
  steps->values.clear();  // waiting nodes hold the arrays that they need
  steps->results.clear();
}

// Skips arguments whose shards come as separate arrays: TakeArgs makes each an array of the run's own, which nothing overwrites.
void ProgramSteps::TakeOver(const ProgramEntry& entry, std::vector<Record>& args) const {
  for (size_t i = 0; i < args.size(); ++i) {
    const Node& node = entry.program().nodes[entry.arguments[i].node];
    if (!node.donated || node.apart) continue;
    args[i]->Donate();
    args[i] = std::make_shared<buffers::LogicalArray>(args[i]->id(), context_->id(), args[i]->shared_spec(), 0,
                                                      arrays_.GroupOf(entry, node.first_output));
  }
}

void ProgramSteps::StartStep(const StepsRef& steps, const Step& step) {
  if (step.part >= 0) return StartPart(steps, step);
  const NodeKind kind = steps->entry->program().nodes[step.node].kind;
  if (kind == NodeKind::kHostCompute) return StartFunction(steps, step);
  if (kind == NodeKind::kWhile) return StartLoop(steps, step);
  if (kind == NodeKind::kRoute) return StartRoute(steps, step);
  return kind == NodeKind::kHostCall ? StartHostCall(steps, step) : StartSelect(steps, step);
}

// Returns a stream for the functions of a branch. A client's stream is the id of a thread, so it is none of these.
uint64_t ProgramSteps::StreamOfBranch(NameScope& names) { return names.NextId() | uint64_t{1} << 63; }

// Takes the run's arguments. With `all_named_anew`, all that are not donated get names of their own: the client still has handles
// for them, and may donate them to a computation that overwrites them.
void ProgramSteps::TakeArgs(StepsRun& steps, const std::vector<Record>& args, bool all_named_anew) {
  const ProgramEntry& entry = *steps.entry;
  size_t next = 0;
  for (int n : entry.program().args) {
    const Node& node = entry.program().nodes[n];
    const size_t count = node.apart ? static_cast<size_t>(node.spec->sharding.num_shards()) : 1;
    const absl::Span<const Record> given = absl::MakeSpan(args).subspan(next, count);
    next += count;
    const bool anew = node.apart || (all_named_anew && !node.donated);
    steps.values[node.first_output] = anew ? arrays_.AliasOf(steps.names, entry, node.first_output, given) : given[0];
  }
}

void ProgramSteps::StartPart(const StepsRef& steps, const Step& step) {
  StepsRun& run = *steps;
  NameScope& names = NamesOf(run, step);
  const std::shared_ptr<const ProgramEntry> part(run.entry, run.entry->steps->parts[step.part].get());  // WN-4
  std::vector<Record> args, results;
  for (int value : step.inputs) args.push_back(run.values[value]);
  for (int value : step.outputs) {
    results.push_back(arrays_.NewResult(names, *part, results.size()));
    run.values[value] = results.back();
  }
  for (int result : step.results) results.push_back(run.results[result]);
  if (run.turns == nullptr)
    graphs_->SendRun(part, std::move(names), args, results, run.run);
  else
    SendPartInTurn(steps, std::move(names), part, args, std::move(results));
  for (size_t i = 0; i < args.size(); ++i) {
    if (part->arguments[i].donated) args[i]->Donate();
  }
}

// Gives the call of a step that is one command to each of its hosts the arrays that it takes and makes, and its end.
template <class Call>
void ProgramSteps::FillCall(const StepsRef& steps, const Step& step, NameScope& names, Call* call) {
  StepsRun& run = *steps;
  for (int value : step.inputs) call->args.push_back(run.values[value]);
  for (int value : step.outputs) {
    call->results.push_back(arrays_.New(names, *run.entry, value));
    run.values[value] = call->results.back();
  }
  if (run.run != nullptr) ++run.run->missing;
  call->done = EndOf(steps);
}

void ProgramSteps::StartFunction(const StepsRef& steps, const Step& step) {
  StepsRun& run = *steps;
  const ProgramEntry& entry = *run.entry;
  NameScope& names = NamesOf(run, step);
  const program::Executable& function = *entry.typed->executables[entry.program().nodes[step.node].executable];
  SessionFunctions::NodeCall call{function, entry.program().Describe(step.node), run.stream, {}, {}, nullptr};
  FillCall(steps, step, names, &call);
  functions_->LaunchNode(names, call);
  for (const Record& result : call.results) result->OnDone(absl::OkStatus());
}

void ProgramSteps::StartRoute(const StepsRef& steps, const Step& step) {
  StepsRun& run = *steps;
  const ProgramEntry& entry = *run.entry;
  NameScope& names = NamesOf(run, step);
  const auto number = static_cast<size_t>(&step - entry.steps->cut.steps.data());
  RouteRuns::Call call{*entry.steps->routes[number], entry.program().Describe(step.node), {}, {}, nullptr};
  FillCall(steps, step, names, &call);
  routes_.Launch(names, call);
  for (const Record& result : call.results) result->OnDone(absl::OkStatus());
}

// Returns what to call when a step that is one command to each of its hosts has ended.
std::function<void(const absl::Status&)> ProgramSteps::EndOf(const StepsRef& steps) {
  return [this, alive = context_->alive(), steps](const absl::Status& status) {
    if (alive.expired()) return;
    EndRun(steps->run, status);
    if (steps->turns == nullptr) return;
    --steps->turns->under_way;
    Advance(steps);
  };
}

void ProgramSteps::StartHostCall(const StepsRef& run, const Step& step) {
  const ProgramEntry& entry = *run->entry;
  NameScope& names = NamesOf(*run, step);
  NameScope end = names.Take({2 * step.outputs.size(), 2 * step.outputs.size()});
  auto call = std::make_shared<HostCallRun>(HostCallRun{run, step.node, {}, 0, absl::OkStatus(), {}, {}, std::move(end)});
  call->call.callback = entry.program().nodes[step.node].callback;
  for (int value : step.inputs) {
    const buffers::ArraySpec& spec = run->values[value]->spec();
    call->call.operands.push_back({spec.dtype, spec.dims, std::nullopt});
  }
  call->call.data.resize(step.inputs.size());
  for (int value : step.outputs) {
    call->outputs.push_back(arrays_.Expect(entry, value, arrays_.New(names, entry, value)));
    run->values[value] = call->outputs.back().record;
  }
  if (run->run != nullptr) run->run->BeginNode();
  if (const auto client = lanes_->client()) return CallByLane(*client, call, step);
  call->left = step.inputs.size() + 1;  // plus one for this function
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const Record& operand = run->values[step.inputs[i]];
    arrays_.FetchValue(names, entry, step.inputs[i], operand,
                       [this, alive = context_->alive(), call, operand, i](absl::StatusOr<Bytes> bytes) {
                         if (alive.expired()) return;
                         call->error.Update(bytes.status());
                         if (bytes.ok()) call->call.data[i] = *std::move(bytes);
                         if (--call->left == 0) CallHost(call);
                       });
  }
  if (--call->left > 0) return;
  fabric_->Post([this, alive = context_->alive(), call] {
    if (!alive.expired()) CallHost(call);
  });
}

// The client fetches the operands itself, and hosts take the results from it: the controller gets no byte of them. Until then
// another computation may overwrite an operand, so the client reads it under a name of our own.
void ProgramSteps::CallByLane(session::LaneListener& client, const std::shared_ptr<HostCallRun>& call, const Step& step) {
  StepsRun& run = *call->steps;
  session::NodeCall message;
  message.callback = call->call.callback;
  std::vector<Record> operands;
  for (int value : step.inputs) {
    const Record operand =
        run.turns == nullptr ? arrays_.AliasOf(NamesOf(run, step), *run.entry, value, {run.values[value]}) : run.values[value];
    operands.push_back(operand);
    call->operands.push_back(context_->arrays().NewHandle());
    context_->arrays().Insert(call->operands.back(), {operand, operand->shared_spec(), nullptr});
    message.operands.push_back({call->operands.back(), operand->spec().dtype, operand->spec().dims});
  }
  reads_->Hold(std::move(operands), [this, alive = context_->alive(), call](const absl::Status& status) {
    if (alive.expired() || !status.ok()) return;
    for (const Expected& expected : call->outputs) arrays_.Announce(expected);
  });
  client.OnNodeCall(std::move(message),
                    [this, alive = context_->alive(), call](absl::StatusOr<std::vector<session::LaneResult>> results) {
                      if (!alive.expired()) EndCallByLane(*call, results);
                    });
}

void ProgramSteps::EndCallByLane(HostCallRun& call, const absl::StatusOr<std::vector<session::LaneResult>>& results) {
  context_->arrays().Erase(call.operands).IgnoreError();
  const absl::Status status = FulfilResults(
      call, results, [](const session::LaneResult& result) { return result.bytes; },
      [&](const Expected& expected, const session::LaneResult& result) {
        return arrays_.PutFromLane(call.end, expected, result);
      });
  for (size_t i = 0; !status.ok() && results.ok() && i < results->size(); ++i) {
    arrays_.LaneBuffer((*results)[i].buffer);  // dropped at once: no host will ask for it
  }
  EndWaiting(call.steps, status);
}

void ProgramSteps::CallHost(const std::shared_ptr<HostCallRun>& call) {
  if (!call->error.ok()) return EndHostCall(*call, call->error);
  if (host_calls_ == nullptr) return EndHostCall(*call, session::NoHostCallHandler());
  for (const Expected& expected : call->outputs) arrays_.Announce(expected);
  const std::shared_ptr<HostCallHandler> keep = host_calls_;
  keep->OnHostCall(std::move(call->call), [this, alive = context_->alive(), call](absl::StatusOr<std::vector<Bytes>> results) {
    if (!alive.expired()) EndHostCall(*call, results);
  });
}

template <class Result, class Size, class Put>
absl::Status ProgramSteps::FulfilResults(HostCallRun& call, const absl::StatusOr<std::vector<Result>>& results, Size size,
                                         Put put) {
  absl::Status status = results.status();
  if (status.ok()) {
    std::vector<uint64_t> bytes;
    for (const Result& result : *results) bytes.push_back(size(result));
    status = CheckResults(call, bytes);
  }
  status = call.steps->entry->program().At(call.node, status);
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (status.ok())
      arrays_.Fulfil(call.end, call.outputs[i], put(call.outputs[i], (*results)[i]));
    else
      arrays_.Fulfil(call.end, call.outputs[i], status);
  }
  return status;
}

// Checks that a function's results have the sizes of the call's outputs.
absl::Status ProgramSteps::CheckResults(const HostCallRun& call, absl::Span<const uint64_t> bytes) {
  if (bytes.size() != call.outputs.size())
    return absl::InvalidArgumentError(absl::StrCat("the function returned ", bytes.size(), " arrays, not ", call.outputs.size()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    const buffers::ArraySpec& spec = call.outputs[i].record->spec();
    PW_ASSIGN_OR_RETURN(const int64_t wanted, buffers::DenseBytes(spec.dtype, spec.dims));
    if (static_cast<int64_t>(bytes[i]) == wanted) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the function returned ", bytes[i], " bytes for ", buffers::ToString(spec), ", which has ", wanted));
  }
  return absl::OkStatus();
}

void ProgramSteps::EndHostCall(HostCallRun& call, const absl::StatusOr<std::vector<Bytes>>& results) {
  const absl::Status status = FulfilResults(
      call, results, [](const Bytes& result) { return result.size(); },
      [&](const Expected& expected, const Bytes& result) { return arrays_.PutBytes(call.end, expected, result); });
  EndWaiting(call.steps, status);
}

void ProgramSteps::StartLoop(const StepsRef& run, const Step& step) {
  const ProgramEntry& entry = *run->entry;
  NameScope& names = NamesOf(*run, step);
  LoopRuns::Call call{run->entry, step.node, {}, {}, names.Take({3 * step.inputs.size(), 1}), nullptr};
  for (int value : step.inputs) call.inputs.push_back(run->values[value]);
  for (int value : step.outputs) {
    call.outputs.push_back(arrays_.Expect(entry, value, arrays_.New(names, entry, value)).record);
    run->values[value] = call.outputs.back();
  }
  if (run->run != nullptr) run->run->BeginNode();
  call.done = [this, alive = context_->alive(), run](const absl::Status& status) {
    if (!alive.expired()) EndWaiting(run, status);
  };
  const std::vector<Record> outputs = call.outputs;
  loops_.Start(std::move(call));
  for (const Record& output : outputs) output->OnDone(absl::OkStatus());
}

// `own`: the names of the choice itself.
void ProgramSteps::StartChoice(const StepsRef& run, const Step& step, const HostChoice& choice, NameScope own) {
  const ProgramEntry& entry = *run->entry;
  ChoiceRuns::Call call{run->entry, step.node, choice, {}, {}, std::move(own), nullptr};
  for (int value : step.inputs) call.inputs.push_back(run->values[value]);
  for (int value : step.outputs) {
    call.outputs.push_back(arrays_.ExpectFromGang(entry, value, arrays_.New(NamesOf(*run, step), entry, value)).record);
    run->values[value] = call.outputs.back();
  }
  if (run->run != nullptr) run->run->BeginNode();
  call.done = [this, alive = context_->alive(), run](const absl::Status& status) {
    if (!alive.expired()) EndWaiting(run, status);
  };
  const std::vector<Record> outputs = call.outputs;
  choices_.Start(std::move(call));
  for (const Record& output : outputs) output->OnDone(absl::OkStatus());
}

void ProgramSteps::StartSelect(const StepsRef& run, const Step& step) {
  const ProgramEntry& entry = *run->entry;
  const program::Program& program = entry.program();
  NameScope& names = NamesOf(*run, step);
  const auto number = static_cast<size_t>(&step - entry.steps->cut.steps.data());
  if (const HostChoice* const choice = entry.steps->choices[number].get(); choice != nullptr) {
    NameScope own = names.Take({choice->slots, 1});  // in any case: who chooses changes no other name (WN-7)
    if (choices_.HostsChoose(entry, *choice)) return StartChoice(run, step, *choice, std::move(own));
  }
  NameScope branch = names.Take(entry.steps->LargestOf(program.nodes[step.node].branches));
  NameScope end = names.Take({step.outputs.size() + 1, step.outputs.size()});
  auto select = std::make_shared<SelectRun>(SelectRun{run, step.node, {}, {}, std::move(branch), std::move(end)});
  for (size_t i = 1; i < step.inputs.size(); ++i) {
    const int value = step.inputs[i];
    // An argument that the client has a handle for may be overwritten by another computation before the branch is sent. So the
    // branch reads it under a name of our own.
    const bool named = run->turns == nullptr && program.nodes[program.producer_of[value]].kind == NodeKind::kArg;
    select->inputs.push_back(named ? arrays_.AliasOf(names, entry, value, {run->values[value]}) : run->values[value]);
  }
  for (int value : step.outputs) {
    select->outputs.push_back(arrays_.Expect(entry, value, arrays_.New(names, entry, value)));
    run->values[value] = select->outputs.back().record;
  }
  if (run->run != nullptr) run->run->BeginNode();
  const Record& index = run->values[step.inputs[0]];
  arrays_.FetchValue(names, entry, step.inputs[0], index,
                     [this, alive = context_->alive(), select, index](absl::StatusOr<Bytes> bytes) {
                       if (!alive.expired()) EndSelect(select, bytes);
                     });
}

// The index is known, or has failed.
void ProgramSteps::EndSelect(const std::shared_ptr<SelectRun>& run, const absl::StatusOr<Bytes>& index) {
  SelectRun& select = *run;
  const ProgramEntry& entry = *select.steps->entry;
  const Node& node = entry.program().nodes[select.node];
  absl::Status status = index.status();
  std::shared_ptr<const ProgramEntry> branch;
  if (status.ok()) {
    int32_t chosen = 0;
    std::memcpy(&chosen, index->data(), std::min(sizeof chosen, index->size()));
    chosen = std::clamp(chosen, 0, static_cast<int32_t>(node.branches.size()) - 1);
    branch = {select.steps->entry, entry.steps->branches[node.branches[chosen]].get()};
    status = CheckHosts(*branch);
  }
  status = entry.program().At(select.node, status);
  if (status.ok() && select.steps->turns != nullptr) return StartBranchInTurn(branch, run);
  std::vector<Record> results;
  for (size_t i = 0; status.ok() && i < select.outputs.size(); ++i) results.push_back(arrays_.NewResult(select.end, *branch, i));
  if (status.ok()) Start(branch, std::move(select.branch), select.inputs, results, select.steps->run, StreamOfBranch(select.end));
  for (size_t i = 0; i < select.outputs.size(); ++i) {
    if (status.ok())
      arrays_.Fulfil(select.end, select.outputs[i], results[i]);
    else
      arrays_.Fulfil(select.end, select.outputs[i], status);
  }
  EndWaiting(select.steps, status);
}

// Ends a waiting node: its value has arrived, or has failed.
void ProgramSteps::EndWaiting(const StepsRef& steps, const absl::Status& status) {
  if (steps->run != nullptr) steps->run->EndEffect();
  EndRun(steps->run, status);
  if (steps->turns == nullptr) return;
  --steps->turns->under_way;
  Advance(steps);
}

void ProgramSteps::EndRun(const std::shared_ptr<ExecuteRun>& run, const absl::Status& status) {
  if (run == nullptr) return;
  run->status.Update(status);
  if (--run->missing == 0) run->AnswerWaiter(*fabric_);
}

// Returns OK if the branch's devices are present: those of its slices, and the hosts that had them when the entry was made.
absl::Status ProgramSteps::CheckHosts(const ProgramEntry& entry) const {
  PW_RETURN_IF_ERROR(context_->devices().Check(entry.devices));
  const auto check = [&](HostId host) { return fabric_->outbox().HasHost(host) ? absl::OkStatus() : fabric_->losses().Of(host); };
  for (HostId host : entry.steps->hosts) PW_RETURN_IF_ERROR(check(host));
  for (const std::shared_ptr<ProgramEntry>& part : entry.steps->parts) {
    for (const dispatch::LoweredHost& there : part->lowered.hosts) PW_RETURN_IF_ERROR(check(there.host));
  }
  return absl::OkStatus();
}

//---- Sequential dispatch: one step after another. The next step follows a part when all of the part is enqueued, and a waiting node
// when its outputs exist.

// The run takes its place in the session's order at the call, even if its first step can only be taken later (WN-5). Gangs that
// are submitted in between may wait for its results.
void ProgramSteps::StartInTurn(StepsRef steps, std::vector<Record> args) {
  const ProgramEntry& entry = *steps->entry;
  steps->turns = std::make_unique<Turns>();
  steps->turns->place = std::make_shared<const Gangs::Barrier>(fabric_->gangs().PlaceOf(context_->id()));
  std::vector<Expected> expected;
  for (size_t r = 0; r < steps->results.size(); ++r) {
    const int value = entry.program().nodes[entry.program().results[r]].inputs[0];
    expected.push_back(arrays_.Expect(entry, value, std::exchange(steps->results[r], arrays_.NewResult(steps->names, entry, r))));
  }
  if (steps->run != nullptr) ++steps->run->missing;
  steps->turns->done = [this, expected = std::move(expected)](StepsRun& ended) {
    for (size_t r = 0; r < expected.size(); ++r) arrays_.FulfilWith(ended.names, expected[r], ended.results[r]);
    EndRun(ended.run, absl::OkStatus());
  };
  dispatch::ArrayOrder::Names names;
  for (size_t i = 0; i < args.size(); ++i) (entry.arguments[i].donated ? names.changes : names.reads).push_back(args[i]->id());
  auto take = [this, alive = context_->alive(), steps = std::move(steps),
               args = std::move(args)](dispatch::ArrayOrder::Ticket ticket) mutable {
    if (alive.expired()) return;
    TakeArgs(*steps, std::exchange(args, {}), true);
    fabric_->outbox().order().End(ticket);
    TakeSteps(std::move(steps));
  };
  fabric_->outbox().order().Begin(context_->id(), names, std::move(take));
}

void ProgramSteps::StartBranchInTurn(const std::shared_ptr<const ProgramEntry>& branch,
                                     const std::shared_ptr<SelectRun>& select) {
  StepsRef steps = NewRun(branch, std::move(select->branch), {}, select->steps->run, StreamOfBranch(select->end));
  steps->turns = std::make_unique<Turns>();
  steps->turns->place = select->steps->turns->place;
  for (size_t r = 0; r < select->outputs.size(); ++r) steps->results.push_back(arrays_.NewResult(select->end, *branch, r));
  steps->turns->done = [this, select](StepsRun& ended) {
    for (size_t r = 0; r < select->outputs.size(); ++r) arrays_.FulfilWith(select->end, select->outputs[r], ended.results[r]);
    EndWaiting(select->steps, absl::OkStatus());
  };
  TakeArgs(*steps, std::exchange(select->inputs, {}), false);
  TakeSteps(std::move(steps));
}

// REQUIRES: the run has its arguments.
void ProgramSteps::TakeSteps(StepsRef steps) {
  std::vector<int>& last_taken = steps->turns->last_taken;
  last_taken.assign(steps->values.size(), -1);
  const std::vector<Step>& all = steps->entry->steps->cut.steps;
  for (size_t s = 0; s < all.size(); ++s) {
    for (int value : all[s].inputs) last_taken[value] = static_cast<int>(s);
  }
  for (size_t v = 0; v < last_taken.size(); ++v) {
    if (last_taken[v] < 0) steps->values[v] = nullptr;
  }
  Advance(std::move(steps));
}

// Begins the next step; may be called again while that begins. Each value is held until the last step that takes it has begun.
void ProgramSteps::Advance(StepsRef steps) {
  Turns& turns = *steps->turns;
  turns.again = true;
  if (std::exchange(turns.advancing, true)) return;
  const std::vector<Step>& all = steps->entry->steps->cut.steps;
  while (std::exchange(turns.again, false)) {
    if (turns.next == all.size()) break;
    const int at = static_cast<int>(turns.next);
    const Step& step = all[turns.next++];
    ++turns.under_way;
    StartStep(steps, step);
    for (const std::vector<int>* values : {&step.inputs, &step.outputs}) {
      for (int value : *values) {
        if (turns.last_taken[value] <= at) steps->values[value] = nullptr;
      }
    }
  }
  turns.advancing = false;
  if (turns.next < all.size() || turns.under_way > 0) return;
  std::exchange(turns.done, nullptr)(*steps);
  steps->results.clear();
}

// Ends a step that has begun.
void ProgramSteps::EndStep(const StepsRef& steps) {
  if (--steps->turns->under_way == 0 && steps->turns->next == steps->entry->steps->cut.steps.size()) Advance(steps);
}

void ProgramSteps::SendPartInTurn(const StepsRef& steps, NameScope names, const std::shared_ptr<const ProgramEntry>& part,
                                  const std::vector<Record>& args, std::vector<Record> results) {
  auto done = [this, alive = context_->alive(), steps](const absl::Status& status) {
    if (alive.expired()) return;
    if (steps->run != nullptr) steps->run->status.Update(status);
    EndStep(steps);
  };
  auto sent = [this, alive = context_->alive(), steps] {
    if (!alive.expired()) Advance(steps);
  };
  std::make_shared<SequentialRun>(fabric_, context_->id(), std::move(names), context_->alive(), part, args, std::move(results),
                                  std::move(done), SequentialRun::Part{steps->turns->place, std::move(sent)})
      ->Start();
}

}  // namespace pw::controller
