#include "pathways/worker/execute/program_executor.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/program/program.h"
#include "pathways/worker/execute/tracing.h"

namespace pw::worker {
namespace v1 = pathways::v1;

namespace {

constexpr int kMostExamined = 256;

}  // namespace

void ProgramExecutor::Link::InsertBefore(Link* next) {
  before = next->before;
  after = next;
  before->after = next->before = this;
}

void ProgramExecutor::Link::Remove() {
  before->after = after;
  after->before = before;
  before = after = this;
}

// One execution, from its command to its completion.
struct ProgramExecutor::Run : ProgramExecutor::Link {
  ~Run() { Remove(); }

  uint64_t op = 0;
  uint64_t gang = 0;         // for the trace
  uint64_t enqueued_op = 0;  // 0 once it is done
  bool granted = false;
  bool short_of_memory = false;  // it waits for memory
  SessionId session;
  ProgramRef program;
  uint64_t launch = 0;  // id on all its hosts, if there are several
  bool report_time = false;
  std::string location;  // in the user's program
  absl::InlinedVector<ArrayId, 4> arg_ids;
  absl::InlinedVector<ArrayId, 4> result_ids;
  std::vector<int32_t> forbidden;  // donations that the command excludes
  std::vector<int32_t> given;      // arguments that this execution takes over
  Hazards::Shards args;            // argument k of position p at [p * arguments + k]
  Hazards::Shards results;         // result k of position p at [p * results + k]
  Hazards::TaskRef task;
  LaunchOrder::Turn turn;
  absl::Time started = absl::InfinitePast();
  std::shared_ptr<const device::Interval> busy;  // when the devices were busy, if the runtime reports it

  size_t positions() const { return program->devices.size(); }
  const device::ProgramInfo& info() const { return program->loaded->info(); }
};

ProgramExecutor::ProgramExecutor(const Dependencies& dependencies)
    : context_(dependencies.context),
      arrays_(dependencies.arrays),
      order_(dependencies.order),
      spill_(dependencies.spill),
      programs_(dependencies.programs),
      next_launch_id_(dependencies.next_launch_id),
      launch_failed_(dependencies.launch_failed) {}

// Unlinks the runs, because devices may still hold them.
ProgramExecutor::~ProgramExecutor() {
  while (unfinished_.after != &unfinished_) unfinished_.after->Remove();
}

void ProgramExecutor::AbortLaunches(const absl::Status& why) {
  for (const Link* at = unfinished_.after; at != &unfinished_; at = at->after) {
    const Run& run = static_cast<const Run&>(*at);
    if (run.launch != 0 && run.started > absl::InfinitePast()) arrays_->runtime()->AbortLaunch(LaunchNumber(run.launch), why);
  }
}

std::set<SessionId> ProgramExecutor::Computing() const {
  std::set<SessionId> sessions;
  for (const Link* at = unfinished_.after; at != &unfinished_; at = at->after) {
    const Run& run = static_cast<const Run&>(*at);
    if (run.started > absl::InfinitePast()) sessions.insert(run.session);
  }
  return sessions;
}

void ProgramExecutor::Unbegin() {
  ObjectStore& store = arrays_->store();
  for (const Link* at = unfinished_.after; at != &unfinished_; at = at->after) {
    const Run& run = static_cast<const Run&>(*at);
    if (run.started > absl::InfinitePast()) continue;
    const size_t args = run.arg_ids.size();
    for (size_t i = 0; i < run.args.size(); ++i) {
      const ShardRef& arg = run.args[i];
      const ArrayId id = run.arg_ids[i % args];
      const int shard = run.program->shard(i / args);
      if (arg->settled() && !arg->failed() && store.Find(id, shard) == nullptr) store.Bind(id, shard, arg, run.session);
    }
  }
}

v1::Examination::Launch::State ProgramExecutor::StateOf(const Run& run) {
  using Launch = v1::Examination::Launch;
  if (run.program->pending) return Launch::COMPILING;
  if (!run.granted) return Launch::NOT_GRANTED;
  if (run.started > absl::InfinitePast()) return Launch::LAUNCHED;
  if (run.short_of_memory) return Launch::WAITS_FOR_MEMORY;
  const auto there = [](const ShardRef& shard) { return !shard->pending(); };
  return std::all_of(run.args.begin(), run.args.end(), there) ? Launch::WAITS_FOR_TURN : Launch::WAITS_FOR_INPUTS;
}

void ProgramExecutor::Examine(v1::Examination* examination) const {
  for (const Link* at = unfinished_.after; at != &unfinished_ && examination->launches_size() < kMostExamined; at = at->after) {
    const Run& run = static_cast<const Run&>(*at);
    v1::Examination::Launch& launch = *examination->add_launches();
    launch.set_op(run.op);
    launch.set_session(run.session.v);
    if (run.program->loaded != nullptr) launch.set_program(run.info().name);
    launch.set_location(run.location);
    launch.set_state(StateOf(run));
  }
}

void ProgramExecutor::Execute(const v1::Execute& command) {
  auto run = std::make_shared<Run>();
  run->op = command.op();
  run->enqueued_op = command.enqueued();
  run->gang = command.gang();
  run->session = SessionOr(command.session(), command.op());
  run->launch = command.launch();
  last_launch_ = std::max(last_launch_, run->launch);
  run->report_time = command.report_device_time();
  run->location = command.location();
  run->program = programs_->Find(ExecutableId(command.executable()));
  for (uint64_t id : command.args()) run->arg_ids.push_back(ArrayId(id));
  for (uint64_t id : command.results()) run->result_ids.push_back(ArrayId(id));
  run->forbidden.assign(command.non_donatable().begin(), command.non_donatable().end());
  if (run->program == nullptr) {
    const absl::Status error =
        absl::NotFoundError(absl::StrCat(ToString(ExecutableId(command.executable())),
                                         " is not loaded on this host: it was dropped, or compiled for other hosts"));
    for (ArrayId id : run->result_ids) arrays_->store().Poison(id, error, run->session);
    context_->outbox().Done(run->enqueued_op, absl::OkStatus());
    context_->outbox().Done(run->op, error);
    return;
  }
  Resolve(run, command.grant());
}

// Resolves names to shards, in command order.
void ProgramExecutor::Resolve(const RunRef& run, uint64_t grant) {
  run->InsertBefore(&unfinished_);
  run->task = std::make_shared<Hazards::Task>();
  Hazards::Task& task = *run->task;
  for (size_t p = 0; p < run->positions(); ++p) {
    for (ArrayId id : run->arg_ids) run->args.push_back(arrays_->store().FindOrFailed(id, run->program->shard(p)));
  }
  task.reads = run->args;
  if (run->program->loaded != nullptr) {
    ForgetDonated(*run);
    for (int32_t k : run->info().donated_inputs) {
      if (!MayDonate(*run, k)) continue;
      run->given.push_back(k);
      for (size_t p = 0; p < run->positions(); ++p) {
        task.consumes.push_back(run->args[p * run->arg_ids.size() + k]);
        task.consumes.back()->promised = true;
      }
    }
  }
  for (size_t p = 0; p < run->positions(); ++p) {
    for (ArrayId id : run->result_ids) {
      run->results.push_back(arrays_->NewShard(run->program->devices[p], run->session));
      arrays_->store().Bind(id, run->program->shard(p), run->results.back(), run->session);
    }
  }
  task.run = [this, run](const absl::Status& inputs) { return Start(run, inputs); };
  if (run->program->pending) {
    // Its donations are not known yet, so it donates nothing: commands that arrive meanwhile may read the same arrays.
    arrays_->hazards().Hold(run->task);
    run->program->waiters.push_back([this, alive = context_->alive(), run] {
      if (alive.expired()) return;
      if (run->program->loaded != nullptr) ForgetDonated(*run);
      TellEnqueued(*run);
      arrays_->hazards().Release(run->task);
    });
  }
  run->turn.when_granted = [this, raw = run.get()] {
    raw->granted = true;
    TellEnqueued(*raw);
  };
  order_->Enter(&run->turn, grant, run->session, &run->program->devices, run->task);
  arrays_->hazards().Submit(run->task);
}

// Later commands cannot see a donated array, whether or not its memory is taken over.
void ProgramExecutor::ForgetDonated(const Run& run) {
  for (int32_t k : run.info().donated_inputs) {
    if (static_cast<size_t>(k) >= run.arg_ids.size() || std::count(run.forbidden.begin(), run.forbidden.end(), k) > 0) continue;
    arrays_->store().Release(run.arg_ids[k]);
  }
}

// Returns whether only this execution uses argument k, judging by names and this call.
bool ProgramExecutor::MayDonate(const Run& run, int32_t k) const {
  const size_t args = run.arg_ids.size();
  if (static_cast<size_t>(k) >= args || std::count(run.forbidden.begin(), run.forbidden.end(), k) > 0) return false;
  for (size_t p = 0; p < run.positions(); ++p) {
    const ShardRef& shard = run.args[p * args + k];
    if (shard->names > 0 || shard->shared()) return false;
    const auto row = run.args.begin() + static_cast<int64_t>(p * args);
    if (std::count(row, row + static_cast<int64_t>(args), shard) > 1) return false;
  }
  return true;
}

absl::Status ProgramExecutor::Check(const Run& run) const {
  if (!run.program->error.ok()) return run.program->error;
  const device::ProgramInfo& info = run.info();
  if (run.result_ids.size() != info.outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program '", info.name, "' has ", info.outputs.size(), " results, not ", run.result_ids.size()));
  }
  if (!info.parameters.empty() && run.arg_ids.size() != info.parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program '", info.name, "' takes ", info.parameters.size(), " arguments, not ", run.arg_ids.size()));
  }
  for (size_t i = 0; i < run.args.size(); ++i) {
    if (run.args[i]->failed()) continue;  // reported as a failed input
    const int wanted = run.program->devices[i / run.arg_ids.size()];
    if (run.args[i]->device() == wanted) continue;
    return absl::InvalidArgumentError(absl::StrCat("argument ", i % run.arg_ids.size(), " of program '", info.name,
                                                   "' is on local device ", run.args[i]->device(), " where it must be on ",
                                                   wanted));
  }
  return absl::OkStatus();
}

Hazards::Outcome ProgramExecutor::Start(const RunRef& run, const absl::Status& inputs) {
  absl::Status status = Check(*run);
  status.Update(inputs);
  status.Update(run->turn.refused);
  if (status.ok()) {
    absl::Status why;
    switch (Admit(run, &why)) {
      case MemoryGate::Verdict::kWait:
        run->short_of_memory = true;
        return Hazards::Outcome::kWait;
      case MemoryGate::Verdict::kNever:
        status = why;
        break;
      case MemoryGate::Verdict::kRoom:
        break;
    }
  }
  if (status.ok()) {
    Launch(run);
  } else {
    Finish(run, status);
  }
  order_->Leave(&run->turn);
  return Hazards::Outcome::kDone;
}

// Returns the arguments that are in host memory, each once.
std::vector<ShardRef> ProgramExecutor::MovedOut(const Run& run) {
  std::vector<ShardRef> moved;
  for (const ShardRef& shard : run.args) {
    if (shard->moved_out() > 0 && std::count(moved.begin(), moved.end(), shard) == 0) moved.push_back(shard);
  }
  return moved;
}

MemoryGate::Verdict ProgramExecutor::Admit(const RunRef& run, absl::Status* why) {
  if (!arrays_->memory().Limits(run->session)) return MemoryGate::Verdict::kRoom;
  int64_t each = 0;
  for (int64_t bytes : run->program->output_bytes) each += bytes;
  absl::InlinedVector<MemoryGate::Need, 8> needs;
  for (int device : run->program->devices) needs.push_back({device, each});
  auto add = [&](int device, int64_t bytes, int64_t moved_back = 0) {
    for (MemoryGate::Need& need : needs) {
      if (need.device != device) continue;
      need.bytes += bytes;
      need.moved_back += moved_back;
    }
  };
  for (const ShardRef& shard : MovedOut(*run)) add(shard->device(), shard->moved_out(), shard->moved_out());
  // Donated inputs become outputs.
  for (const ShardRef& shard : run->task->consumes) add(shard->device(), -shard->bytes() - shard->moved_out());
  return arrays_->memory().Admit({needs, run->session, /*keeps_others=*/true}, run->task, why);
}

void ProgramExecutor::Launch(const RunRef& run) {
  const device::ProgramInfo& info = run->info();
  const size_t args = run->arg_ids.size();
  device::LaunchOptions options;
  options.launch_id = run->program->spans() ? LaunchNumber(run->launch) : NextLaunchId();
  options.session = run->session;
  for (int32_t k : info.donated_inputs) {
    if (std::count(run->given.begin(), run->given.end(), k) == 0) options.non_donatable.push_back(k);
  }
  for (const ShardRef& shard : MovedOut(*run)) {
    if (absl::Status back = spill_->BringBack(*shard); !back.ok()) return Finish(run, back);
  }
  absl::InlinedVector<device::DeviceBuffer*, 32> buffers;
  for (const ShardRef& shard : run->args) buffers.push_back(shard->buffer());
  if (std::count(buffers.begin(), buffers.end(), nullptr) > 0) {
    return Finish(
        run, absl::FailedPreconditionError(absl::StrCat("an argument of program '", info.name, "' has been donated or deleted")));
  }
  run->started = context_->clock()->Now();
  absl::StatusOr<device::Launch> launch = run->program->loaded->Execute(buffers, options);
  if (!launch.ok()) return Finish(run, launch.status());
  run->busy = std::move(launch->busy);
  for (int32_t k : run->given) {
    for (size_t p = 0; p < run->positions(); ++p) run->args[p * args + k]->Consume();
  }
  const size_t results = run->result_ids.size();
  for (size_t i = 0; i < run->results.size(); ++i) {
    run->results[i]->SetLive(std::move(launch->outputs[i]), run->program->output_bytes[i % results]);
  }
  arrays_->AwaitWork(run->session, run->program->devices, launch->done,
                     [this, run](const absl::StatusOr<Unit>& done) { Finish(run, done.status()); });
}

// Reports that the program is compiled and the execution has its turn, or that it ended without them.
void ProgramExecutor::TellEnqueued(Run& run, bool ended) {
  if (run.enqueued_op != 0 && (ended || (run.granted && !run.program->pending)))
    context_->outbox().Done(std::exchange(run.enqueued_op, 0), absl::OkStatus());
}

// Adds to the error the host that the runtime reports as gone.
absl::Status ProgramExecutor::Marked(const Run& run, const absl::Status& status) {
  for (const auto& [host, address] : run.program->processes) {
    if (!status.ok() && device::BlamesProcess(status, address)) return WithUnreachableHost(status, HostId(host));
  }
  return status;
}

// Ends a run. If an input failed, the run's error is that of the input, not the runtime's.
void ProgramExecutor::Finish(const RunRef& run, const absl::Status& status) {
  run->Remove();
  TellEnqueued(*run, true);
  absl::Status reason = program::WithLocation(Marked(*run, status), run->location);
  if (!status.ok()) {
    for (const ShardRef& shard : run->args) {
      if (!shard->failed()) continue;
      reason = shard->error();
      break;
    }
  }
  if (!reason.ok() && run->program->spans()) TellOthers(*run, reason);
  for (const ShardRef& shard : run->results) {
    if (reason.ok())
      shard->SetReady();
    else
      shard->SetFailed(reason);
  }
  absl::Duration took;
  const double busy = reason.ok() ? Charge(*run, &took) : 0;
  if (reason.ok() && run->report_time) {
    context_->outbox().DoneTimed(run->op, absl::ToDoubleMicroseconds(took), busy);
  } else {
    context_->outbox().Done(run->op, reason, busy);
  }
  if (context_->recorder().on() && run->started > absl::InfinitePast()) Record(*run);
  run->args.clear();
  run->results.clear();
  run->task = nullptr;
}

// `took`: from the launch (or from its turn on the devices, if the runtime reports that) to the end.
double ProgramExecutor::Charge(Run& run, absl::Duration* took) {
  const std::vector<int>& devices = run.program->devices;
  if (run.busy != nullptr) {
    run.started = run.busy->begin;
    *took = run.busy->end - run.busy->begin;
    return order_->Charge(devices, *run.busy);
  }
  const absl::Time now = context_->clock()->Now();
  *took = now - run.started;
  return order_->Charge(devices, run.started, now);
}

// Records the run. It ends when its devices end, if the runtime reports that: a busy worker may notice it much later.
void ProgramExecutor::Record(const Run& run) {
  const absl::Time end = run.busy != nullptr ? run.busy->end : context_->clock()->Now();
  trace::Links links{.flow = run.op, .gang = run.gang, .session = run.session.v};
  for (ArrayId id : run.arg_ids) links.needs.push_back(id.v);
  for (ArrayId id : run.result_ids) links.makes.push_back(id.v);
  for (int device : run.program->devices) {
    context_->recorder().Span(trace::Kind::kRun, DeviceTrack(device), run.info().name, run.started, end, links);
    links.needs.clear();  // once is enough
    links.makes.clear();
  }
}

void ProgramExecutor::TellOthers(const Run& run, const absl::Status& status) {
  v1::LaunchFailed failed;
  failed.set_launch(run.launch);
  *failed.mutable_status() = ToProto(status);
  for (uint32_t host : run.program->hosts) {
    if (HostId(host) != context_->self()) failed.add_hosts(host);
  }
  launch_failed_(failed);
}

int ProgramExecutor::NextLaunchId() {
  *next_launch_id_ = *next_launch_id_ == kSpanning - 1 ? 1 : *next_launch_id_ + 1;
  return *next_launch_id_;
}

}  // namespace pw::worker
