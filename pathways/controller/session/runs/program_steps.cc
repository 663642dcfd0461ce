#include "pathways/controller/session/runs/program_steps.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sort_and_merge.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/hosts/bulk_sender.h"
#include "pathways/controller/session/runs/program_steps_run.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::Command;
using program::Node;
using program::NodeKind;
using program::Step;

void ProgramSteps::Start(const std::shared_ptr<const ProgramEntry>& entry, const std::vector<Record>& args,
                         const std::vector<Record>& results, const std::shared_ptr<ExecuteRun>& run) {
  const program::Cut& cut = entry->steps->cut;
  auto steps = std::make_shared<StepsRun>(StepsRun{entry, std::vector<Record>(cut.specs.size()), results, run, nullptr});
  if (fabric().sequential_dispatch()) return StartInTurn(std::move(steps), args);
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
                                                      GroupOf(entry, node.first_output));
  }
}

void ProgramSteps::StartStep(const StepsRef& steps, const Step& step) {
  if (step.part >= 0) return StartPart(steps, step);
  const bool calls = steps->entry->program().nodes[step.node].kind == NodeKind::kHostCall;
  return calls ? StartHostCall(steps, step) : StartSelect(steps, step);
}

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
    steps.values[node.first_output] = anew ? AliasOf(entry, node.first_output, given) : given[0];
  }
}

void ProgramSteps::StartPart(const StepsRef& steps, const Step& step) {
  StepsRun& run = *steps;
  const std::shared_ptr<const ProgramEntry> part(run.entry, run.entry->steps->parts[step.part].get());  // WN-4
  std::vector<Record> args, results;
  for (int value : step.inputs) args.push_back(run.values[value]);
  for (int value : step.outputs) {
    results.push_back(ResultOf(*part, results.size()));
    run.values[value] = results.back();
  }
  for (int result : step.results) results.push_back(run.results[result]);
  if (run.turns == nullptr)
    graphs_->SendRun(part, args, results, run.run);
  else
    SendPartInTurn(steps, part, args, std::move(results));
  for (size_t i = 0; i < args.size(); ++i) {
    if (part->arguments[i].donated) args[i]->Donate();
  }
}

void ProgramSteps::StartHostCall(const StepsRef& run, const Step& step) {
  const ProgramEntry& entry = *run->entry;
  auto call = std::make_shared<HostCallRun>();
  call->steps = run;
  call->node = step.node;
  call->call.callback = entry.program().nodes[step.node].callback;
  for (int value : step.inputs) {
    const buffers::ArraySpec& spec = run->values[value]->spec();
    call->call.operands.push_back({spec.dtype, spec.dims, std::nullopt});
  }
  call->call.data.resize(step.inputs.size());
  for (int value : step.outputs) {
    call->outputs.push_back(Expect(entry, value, NewRecord(entry, value)));
    run->values[value] = call->outputs.back().record;
  }
  if (run->run != nullptr) run->run->BeginNode();
  if (const auto client = lanes_->client()) return CallByLane(*client, call, step);
  call->left = step.inputs.size() + 1;  // plus one for this function
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const Record& operand = run->values[step.inputs[i]];
    FetchValue(entry, step.inputs[i], operand, [this, alive = alive(), call, operand, i](absl::StatusOr<Bytes> bytes) {
      if (alive.expired()) return;
      call->error.Update(bytes.status());
      if (bytes.ok()) call->call.data[i] = *std::move(bytes);
      if (--call->left == 0) CallHost(call);
    });
  }
  if (--call->left > 0) return;
  fabric().Post([this, alive = alive(), call] {
    if (!alive.expired()) CallHost(call);
  });
}

// The client fetches the operands itself, and hosts take the results from it: the controller gets no byte of them. Until then
// another computation may overwrite an operand, so the client reads it under a name of our own.
void ProgramSteps::CallByLane(session::LaneListener& client, const std::shared_ptr<HostCallRun>& call, const Step& step) {
  const StepsRun& run = *call->steps;
  session::NodeCall message;
  message.callback = call->call.callback;
  std::vector<Record> operands;
  for (int value : step.inputs) {
    const Record operand = run.turns == nullptr ? AliasOf(*run.entry, value, {run.values[value]}) : run.values[value];
    operands.push_back(operand);
    call->operands.push_back(context_->arrays().NewHandle());
    context_->arrays().Insert(call->operands.back(), {operand, operand->shared_spec(), nullptr});
    message.operands.push_back({call->operands.back(), operand->spec().dtype, operand->spec().dims});
  }
  reads_->Hold(std::move(operands), [this, alive = alive(), call](const absl::Status& status) {
    if (alive.expired() || !status.ok()) return;
    for (const Expected& expected : call->outputs) Announce(expected);
  });
  client.OnNodeCall(std::move(message), [this, alive = alive(), call](absl::StatusOr<std::vector<session::LaneResult>> results) {
    if (!alive.expired()) EndCallByLane(*call, results);
  });
}

void ProgramSteps::EndCallByLane(const HostCallRun& call, const absl::StatusOr<std::vector<session::LaneResult>>& results) {
  context_->arrays().Erase(call.operands).IgnoreError();
  const absl::Status status = FulfilResults(
      call, results, [](const session::LaneResult& result) { return result.bytes; },
      [this](const Expected& expected, const session::LaneResult& result) { return PutFromLane(expected, result); });
  for (size_t i = 0; !status.ok() && results.ok() && i < results->size(); ++i) {
    LaneBuffer((*results)[i].buffer);  // dropped at once: no host will ask for it
  }
  EndWaiting(call.steps, status);
}

void ProgramSteps::CallHost(const std::shared_ptr<HostCallRun>& call) {
  if (!call->error.ok()) return EndHostCall(*call, call->error);
  if (host_calls_ == nullptr) return EndHostCall(*call, session::NoHostCallHandler());
  for (const Expected& expected : call->outputs) Announce(expected);
  const std::shared_ptr<HostCallHandler> keep = host_calls_;
  keep->OnHostCall(std::move(call->call), [this, alive = alive(), call](absl::StatusOr<std::vector<Bytes>> results) {
    if (!alive.expired()) EndHostCall(*call, results);
  });
}

template <class Result, class Size, class Put>
absl::Status ProgramSteps::FulfilResults(const HostCallRun& call, const absl::StatusOr<std::vector<Result>>& results, Size size,
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
      Fulfil(call.outputs[i], put(call.outputs[i], (*results)[i]));
    else
      Fulfil(call.outputs[i], status);
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

void ProgramSteps::EndHostCall(const HostCallRun& call, const absl::StatusOr<std::vector<Bytes>>& results) {
  const absl::Status status = FulfilResults(
      call, results, [](const Bytes& result) { return result.size(); },
      [this](const Expected& expected, const Bytes& result) { return PutBytes(expected, result); });
  EndWaiting(call.steps, status);
}

void ProgramSteps::StartSelect(const StepsRef& run, const Step& step) {
  const ProgramEntry& entry = *run->entry;
  const program::Program& program = entry.program();
  auto select = std::make_shared<SelectRun>();
  select->steps = run;
  select->node = step.node;
  for (size_t i = 1; i < step.inputs.size(); ++i) {
    const int value = step.inputs[i];
    // An argument that the client has a handle for may be overwritten by another computation before the branch is sent. So the
    // branch reads it under a name of our own.
    const bool named = run->turns == nullptr && program.nodes[program.producer_of[value]].kind == NodeKind::kArg;
    select->inputs.push_back(named ? AliasOf(entry, value, {run->values[value]}) : run->values[value]);
  }
  for (int value : step.outputs) {
    select->outputs.push_back(Expect(entry, value, NewRecord(entry, value)));
    run->values[value] = select->outputs.back().record;
  }
  if (run->run != nullptr) run->run->BeginNode();
  const Record& index = run->values[step.inputs[0]];
  FetchValue(entry, step.inputs[0], index, [this, alive = alive(), select, index](absl::StatusOr<Bytes> bytes) {
    if (!alive.expired()) EndSelect(select, bytes);
  });
}

// The index is known, or has failed.
void ProgramSteps::EndSelect(const std::shared_ptr<SelectRun>& run, const absl::StatusOr<Bytes>& index) {
  const SelectRun& select = *run;
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
  for (size_t i = 0; status.ok() && i < select.outputs.size(); ++i) results.push_back(ResultOf(*branch, i));
  if (status.ok()) Start(branch, select.inputs, results, select.steps->run);
  for (size_t i = 0; i < select.outputs.size(); ++i) {
    if (status.ok())
      Fulfil(select.outputs[i], results[i]);
    else
      Fulfil(select.outputs[i], status);
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
  if (--run->missing == 0) run->AnswerWaiter(fabric());
}

// Returns OK if the branch's devices are present: those of its slices, and the hosts that had them when the entry was made.
absl::Status ProgramSteps::CheckHosts(const ProgramEntry& entry) const {
  PW_RETURN_IF_ERROR(context_->devices().Check(entry.devices));
  const auto check = [&](HostId host) { return fabric().outbox().HasHost(host) ? absl::OkStatus() : fabric().losses().Of(host); };
  for (HostId host : entry.steps->hosts) PW_RETURN_IF_ERROR(check(host));
  for (const EntryRef& part : entry.steps->parts) {
    for (const dispatch::LoweredHost& there : part->lowered.hosts) PW_RETURN_IF_ERROR(check(there.host));
  }
  return absl::OkStatus();
}

//---- arrays of steps

// REQUIRES: a host of the array is lost. Returns the error.
absl::Status ProgramSteps::WhyGone(const Record& array) const {
  absl::Status why = array->status();
  why.Update(context_->devices().Check(array->spec().sharding.devices()));
  return why.ok() ? absl::UnavailableError("a host was lost") : why;
}

HostGroup* ProgramSteps::GroupOf(const ProgramEntry& entry, int value) const {
  std::vector<HostId> hosts;
  for (const ProgramEntry::Place& place : *entry.steps->places[value]) hosts.push_back(place.host);
  SortAndMerge(hosts);
  return fabric().groups().Of(std::move(hosts));
}

ProgramSteps::Record ProgramSteps::NewRecord(const ProgramEntry& entry, int value) {
  return std::make_shared<buffers::LogicalArray>(ArrayId(fabric().NextId()), context_->id(), entry.steps->cut.specs[value], 1,
                                                 GroupOf(entry, value));
}

ProgramSteps::Record ProgramSteps::ResultOf(const ProgramEntry& entry, size_t result) {
  const std::vector<HostId>& hosts = entry.lowered.result_hosts[result];
  const int completions = fabric().sequential_dispatch() ? 1 : static_cast<int>(hosts.size());
  return std::make_shared<buffers::LogicalArray>(ArrayId(fabric().NextId()), context_->id(), entry.result_spec(result),
                                                 completions, fabric().groups().Of(hosts));
}

// Returns one array with the shards of `sources`, in order.
ProgramSteps::Record ProgramSteps::AliasOf(const ProgramEntry& entry, int value, absl::Span<const Record> sources) {
  const std::vector<ProgramEntry::Place>& places = *entry.steps->places[value];
  Record record = NewRecord(entry, value);
  std::map<HostId, Command> commands;
  int shard = 0;
  for (const Record& source : sources) {
    for (int s = 0; s < source->spec().sharding.num_shards(); ++s, ++shard) {
      auto& item = *commands[places[shard].host].mutable_alias()->add_items();
      item.set_array(record->id().v);
      item.set_shard(shard);
      item.set_source_array(source->id().v);
      item.set_source_shard(s);
    }
    fabric().gangs().Derive(context_->id(), record->id(), {source->id()});
  }
  for (auto& [host, command] : commands) {
    if (!fabric().outbox().HasHost(host)) {
      record->Poison(WhyGone(record));
      continue;
    }
    command.mutable_alias()->set_op(context_->NameOp(host, {record}).v);
    command.mutable_alias()->set_session(context_->id().v);
    Send(host, std::move(command));
  }
  record->OnDone(absl::OkStatus());
  return record;
}

ProgramSteps::Expected ProgramSteps::Expect(const ProgramEntry& entry, int value, Record record) {
  Expected expected{std::move(record), {}};
  int shard = 0;
  for (const ProgramEntry::Place& place : *entry.steps->places[value]) {
    auto& expect = *expected.commands[place.host].mutable_expect();
    expect.set_session(context_->id().v);
    expect.set_array(expected.record->id().v);
    auto& placement = *expect.add_placements();
    placement.set_shard(shard++);
    placement.set_local_device(place.local_device);
    placement.set_memory_kind(expected.record->spec().sharding.memory_kind());
  }
  for (const auto& [host, command] : expected.commands) Send(host, command);
  fabric().gangs().Await(expected.record);
  return expected;
}

// Tells the hosts that the computation that makes the array has begun.
void ProgramSteps::Announce(const Expected& expected) {
  for (const auto& [host, expect] : expected.commands) {
    Command command;
    command.mutable_expect()->set_array(expected.record->id().v);
    command.mutable_expect()->set_under_way(true);
    Send(host, std::move(command));
  }
}

void ProgramSteps::Fulfil(const Expected& expected, const absl::StatusOr<Record>& source) {
  for (const auto& [host, expect] : expected.commands) {
    if (!fabric().outbox().HasHost(host)) {
      expected.record->Poison(WhyGone(expected.record));
      continue;
    }
    Command command;
    auto& fulfil = *command.mutable_fulfil();
    fulfil.set_op(context_->NameOp(host, {expected.record}).v);
    fulfil.set_session(context_->id().v);
    fulfil.set_array(expected.record->id().v);
    if (source.ok())
      fulfil.set_source((*source)->id().v);
    else
      session::ToProto(source.status(), fulfil.mutable_status());
    Send(host, std::move(command));
  }
  if (source.ok()) (*source)->Donate();
  expected.record->OnDone(absl::OkStatus());
}

void ProgramSteps::FulfilWith(const Expected& expected, const Record& source) {
  if (source->status().ok())
    Fulfil(expected, source);
  else
    Fulfil(expected, source->status());
}

ProgramSteps::Record ProgramSteps::NewResult(const Expected& expected) {
  return std::make_shared<buffers::LogicalArray>(ArrayId(fabric().NextId()), context_->id(), expected.record->shared_spec(), 1,
                                                 nullptr);
}

// Returns the command that puts this number of bytes, as `record`, at the places of the expected array on one host.
Command ProgramSteps::PutCommand(OpId op, const Record& record, const Command& expect, uint64_t bytes) const {
  Command command;
  auto& put = *command.mutable_put();
  put.set_op(op.v);
  put.set_session(context_->id().v);
  put.set_array(record->id().v);
  put.set_dtype(static_cast<int32_t>(record->spec().dtype));
  put.mutable_dims()->Add(record->spec().dims.begin(), record->spec().dims.end());
  *put.mutable_placements() = expect.expect().placements();
  put.set_total_bytes(bytes);
  return command;
}

// Returns an array with these bytes at the places of the expected one.
ProgramSteps::Record ProgramSteps::PutBytes(const Expected& expected, const Bytes& data) {
  const Record record = NewResult(expected);
  const uint64_t transfer = fabric().NextId();
  const bool chunks = data.size() > kChunkBytes;
  fabric().CountArrayBytes(data.size());
  for (const auto& [host, expect] : expected.commands) {
    if (!fabric().outbox().HasHost(host)) continue;
    Command command = PutCommand(context_->NameOp(host, {record}), record, expect, data.size());
    command.mutable_put()->set_transfer(transfer);
    command.mutable_put()->set_payload_bytes(chunks ? 0 : data.size());
    Send(host, std::move(command), chunks ? std::vector<Bytes>() : std::vector<Bytes>{data});
    if (chunks) fabric().SendBytes(host, context_->id(), transfer, data);
  }
  record->OnDone(absl::OkStatus());
  return record;
}

// Returns a guard. When its last copy is gone, the client learns that no host needs the buffer any more. Null for buffer 0.
std::shared_ptr<void> ProgramSteps::LaneBuffer(uint64_t buffer) {
  if (buffer == 0) return nullptr;
  lanes_->Enter(buffer);
  return {nullptr, [this, alive = alive(), buffer](void*) {
            if (!alive.expired()) lanes_->Leave(buffer);
          }};
}

// Like PutBytes, with bytes that the hosts take from the client.
ProgramSteps::Record ProgramSteps::PutFromLane(const Expected& expected, const session::LaneResult& result) {
  const Record record = NewResult(expected);
  const std::shared_ptr<void> buffer = LaneBuffer(result.buffer);
  for (const auto& [host, expect] : expected.commands) {
    if (!fabric().outbox().HasHost(host)) continue;
    lanes_->Open(host);
    const OpId op = context_->NameOp(host, {record}, [buffer](const absl::Status&, auto) {});
    Command command = PutCommand(op, record, expect, result.bytes);
    command.mutable_put()->set_lane_buffer(result.buffer);
    Send(host, std::move(command));
  }
  record->OnDone(absl::OkStatus());
  return record;
}

// Fetches the bytes of an array with one shard, when they exist.
void ProgramSteps::FetchValue(const ProgramEntry& entry, int value, const Record& array, ResultCallback<Bytes> done) {
  const HostId host = entry.steps->places[value]->front().host;
  const absl::StatusOr<int64_t> bytes = buffers::DenseBytes(array->spec().dtype, array->spec().dims);
  absl::Status status = fabric().outbox().HasHost(host) ? bytes.status() : WhyGone(array);
  if (status.ok() && *bytes > fabric().limits().staged_bytes) {
    status = absl::ResourceExhaustedError(absl::StrCat("a value of ", *bytes,
                                                       " bytes is more than the controller takes for a client, ",
                                                       fabric().limits().staged_bytes, " bytes"));
  }
  if (!status.ok()) return context_->Answer<Bytes>(std::move(done), status);
  Command command;
  command.mutable_fetch()->set_fetch(fabric().NextId());
  command.mutable_fetch()->set_array(array->id().v);
  fabric().fetches().Add(command.fetch().fetch(), host, context_->id(), static_cast<uint64_t>(*bytes), std::move(done));
  Send(host, std::move(command));
}

}  // namespace pw::controller
