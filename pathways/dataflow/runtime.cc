// Installs graphs, starts and ends runs. The event loop and the frames are in runtime_loop.cc, lost hosts in runtime_losses.cc.
#include "pathways/dataflow/runtime.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/dataflow/result_operator.h"

namespace pw::dataflow {

Runtime::Runtime(const Environment& environment, const RuntimeKnobs& knobs)
    : environment_(environment),
      knobs_(knobs),
      operators_(environment.operators == nullptr ? Operators() : *environment.operators),
      batcher_(knobs.batching, environment.clock,
               [this](HostId to, bool critical, FrameBuilder frame) { Emit(to, critical, std::move(frame)); }),
      early_(knobs.max_early_bytes, kEarlyWindows * knobs.flow.window_bytes) {
  operators_.Add(kResultOp, [this](const OperatorContext& context) -> absl::StatusOr<std::unique_ptr<Operator>> {
    auto own = IsOwn(context.run) ? own_runs_.find(context.run.sequence) : own_runs_.end();
    if (own == own_runs_.end()) return absl::InvalidArgumentError("a result node must be placed on the coordinator of its graph");
    return std::make_unique<ResultOperator>(own->second.options);
  });
  environment_.links->Start(this);
}

Runtime::~Runtime() {
  busy_ = true;  // destructors of operators must not enter the loop
  runs_.clear();
  removed_.clear();
}

void Runtime::Post(absl::AnyInvocable<void(Runtime&) &&> task) {
  environment_.strand->Post([this, alive = std::weak_ptr<bool>(alive_), task = std::move(task)]() mutable {
    if (!alive.expired()) std::move(task)(*this);
  });
}

absl::StatusOr<GraphId> Runtime::Install(std::shared_ptr<const Graph> graph, const ProgressKnobs& knobs) {
  if (graph->host_loss() != HostLoss::kConcernsNobody) PW_RETURN_IF_ERROR(LostAmong(graph->hosts()));
  // All hosts, this one included, use the values that the message carries.
  const ProgressKnobs progress{std::max(knobs.fan_in, 2u), std::max(knobs.direct_pairs, 1u)};
  PW_ASSIGN_OR_RETURN(std::shared_ptr<const HostPlan> plan,
                      HostPlan::Create(graph, environment_.self, progress, knobs_.max_local_shards));
  const GraphId id{environment_.self, next_graph_++};
  graphs_[id] = plan;
  for (uint32_t i = 0; i < graph->hosts().size(); ++i) SendInstall(graph->hosts().At(i), id, *plan);
  Settle();
  return id;
}

void Runtime::SendInstall(HostId to, GraphId id, const HostPlan& plan) {
  if (to == environment_.self) return;
  SendControl(to, InstallMessage{id.sequence, PartOf(plan.whole(), to), plan.knobs()});
}

void Runtime::Uninstall(GraphId id) {
  auto it = graphs_.find(id);
  PW_CHECK(id.coordinator == environment_.self && it != graphs_.end());
  const std::shared_ptr<const HostPlan> plan = std::move(it->second);
  graphs_.erase(it);
  SendControl(plan->hosts(), UninstallMessage{id.sequence});
  Settle();
}

RunId Runtime::Start(GraphId graph, RunOptions options) {
  auto it = graphs_.find(graph);
  PW_CHECK(graph.coordinator == environment_.self && it != graphs_.end());
  const RunId id{environment_.self, next_run_++};
  const auto argument_for = [&options](HostId host) {
    return options.argument_of ? options.argument_of(host) : options.argument;
  };
  const std::shared_ptr<const HostPlan> plan = it->second;
  const HostSet& hosts = plan->hosts();
  // The caller gets the run's id before the first callback: Begin is posted. It is posted before the starts leave, so that it is ahead of
  // every answer to them on the strand: what comes for a run of this coordinator that has not begun is dropped.
  Post([id](Runtime& runtime) { runtime.Begin(id); });
  OwnRun& own = own_runs_[id.sequence];
  own = {nullptr, plan, graph, hosts.Contains(environment_.self) ? argument_for(environment_.self) : ""};
  if (CheckHosts(*plan).ok()) {
    const uint64_t oldest_live = own_runs_.begin()->first;
    for (uint32_t i = 0; i < hosts.size(); ++i) {
      const HostId host = hosts.At(i);
      if (host != environment_.self)
        SendControl(host, StartMessage{id.sequence, graph.sequence, oldest_live, argument_for(host)});
    }
  }
  batcher_.FlushCritical();  // also inside a callback: the starts take their place among the host's other messages now
  own.options = std::make_shared<const RunOptions>(std::move(options));
  Settle();
  return id;
}

void Runtime::Begin(RunId id) {
  auto own = own_runs_.find(id.sequence);
  if (own == own_runs_.end()) return;  // cancelled
  const bool outer = std::exchange(busy_, true);
  if (absl::Status lost = CheckHosts(*own->second.plan); !lost.ok()) {
    EndEarly(id, lost);
  } else {
    StartHere(id, own->second.plan, std::move(own->second.argument)).IgnoreError();  // on_done gets it
  }
  busy_ = outer;
  Settle();
}

// Starts this host's part, or returns why that cannot be, and ends the run.
absl::Status Runtime::StartHere(RunId id, std::shared_ptr<const HostPlan> plan, std::string argument) {
  Courier* const courier = this;
  auto run = std::make_unique<Run>(id, std::move(plan), std::move(argument), courier);
  Run* raw = run.get();
  runs_[id] = std::move(run);
  if (absl::Status status = raw->Start(operators_); !status.ok()) {
    EndEarly(id, status);
    return status;
  }
  EarlyMessages::Held held = early_.Take(id);
  if (held.lost_some) {
    const absl::Status lost = absl::ResourceExhaustedError(
        absl::StrCat("more messages for ", ToString(id), " came to ", ToString(environment_.self),
                     " before its start than there was room for (max_early_bytes = ", knobs_.max_early_bytes,
                     "), although their senders were to wait: begin fewer runs at once"));
    EndEarly(id, lost);
    return lost;
  }
  for (auto& [from, message] : held.messages) {
    if (TupleMessage* tuple = std::get_if<TupleMessage>(&message)) {
      TakeForRun(from, std::move(*tuple));
    } else {
      TakeForRun(from, std::get<ReportMessage>(std::move(message)));
    }
  }
  FailLostHosts(id);
  EndIfOver(id);
  return absl::OkStatus();
}

void Runtime::Cancel(RunId id, const absl::Status& status) {
  if (!IsOwn(id) || own_runs_.count(id.sequence) == 0) return;
  const bool outer = std::exchange(busy_, true);
  EndEarly(id, status);
  busy_ = outer;
  Settle();
}

bool Runtime::With(const ShardRef& ref, absl::FunctionRef<void(Shard&)> f) {
  auto it = runs_.find(ref.run);
  Shard* shard = it == runs_.end() ? nullptr : it->second->Find(ref.node, ref.shard);
  if (shard == nullptr) return false;
  const bool outer = std::exchange(busy_, true);
  f(*shard);
  EndIfOver(ref.run);
  busy_ = outer;
  Settle();
  return true;
}

void Runtime::EndIfOver(RunId id) {
  auto it = runs_.find(id);
  if (it == runs_.end() || !it->second->over()) return;
  const std::optional<absl::Status> outcome = it->second->outcome();
  if (!IsOwn(id) && !it->second->plan().reports_ends() && !outcome->ok()) {
    PW_LOG_WARNING << ToString(id) << " failed on " << ToString(environment_.self) << ": " << *outcome;
  }
  Remove(id);
  if (IsOwn(id)) Done(id.sequence, *outcome);
}

void Runtime::EndEarly(RunId id, const absl::Status& status) {
  if (!IsOwn(id)) {
    Remove(id);
    return SendControl(id.coordinator, EndMessage{id, status});
  }
  auto own = own_runs_.find(id.sequence);
  if (own == own_runs_.end()) return;
  SendControl(own->second.plan->hosts(), EndMessage{id, status});
  Remove(id);
  Done(id.sequence, status);
}

void Runtime::Remove(RunId id) {
  retired_.Add(id);
  waiting_runs_.erase(id);
  auto it = runs_.find(id);
  if (it == runs_.end()) return;
  removed_.push_back(std::move(it->second));
  runs_.erase(it);
}

void Runtime::Done(uint64_t own_run, const absl::Status& status) {
  auto own = own_runs_.find(own_run);
  if (own == own_runs_.end()) return;
  const std::shared_ptr<const RunOptions> options = std::move(own->second.options);
  own_runs_.erase(own);
  if (options->on_done) options->on_done(status);
}

void Runtime::Violated(RunId id, HostId by, const absl::Status& status) {
  const absl::Status error = absl::InternalError(
      absl::StrCat(ToString(id), " was ended: ", ToString(by), " sent what does not belong to it: ", status.message()));
  const HostPlan* const plan = PlanOf(id);
  if (IsOwn(id) && plan != nullptr && plan->outlives_hosts()) return LeaveRun(id, by, error);
  EndEarly(id, error);
}

void Runtime::TakeInstall(HostId from, InstallMessage& message) {
  const GraphId id{from, message.graph};
  if (graphs_.contains(id)) return;
  auto plan = HostPlan::Create(std::move(message.part), from, environment_.self, message.progress, knobs_.max_local_shards);
  // Without a plan, this host refuses each run of the graph.
  if (plan.ok()) {
    graphs_[id] = *std::move(plan);
  } else {
    PW_LOG_WARNING << ToString(id) << " was refused: " << plan.status();
  }
}

void Runtime::TakeStart(HostId from, StartMessage& message) {
  const RunId id{from, message.run};
  retired_.AddBefore(from, message.oldest_live);
  early_.DropBefore(from, message.oldest_live);
  if (retired_.Contains(id) || runs_.contains(id)) return;
  const absl::Status started = TryStart(from, id, message);
  if (!started.ok() && environment_.on_refused) environment_.on_refused(message.argument, started);
}

absl::Status Runtime::TryStart(HostId from, RunId id, StartMessage& message) {
  const auto graph = graphs_.find({from, message.graph});
  absl::Status refused;
  if (graph == graphs_.end()) {
    refused = absl::FailedPreconditionError(absl::StrCat(ToString(environment_.self), " does not have graph ", message.graph,
                                                         " of ", ToString(from), ", or has refused it"));
  } else {
    refused = CheckHosts(*graph->second);
  }
  if (refused.ok()) return StartHere(id, graph->second, message.argument);
  EndEarly(id, refused);
  return refused;
}

void Runtime::TakeEnd(HostId from, const EndMessage& message) {
  if (from == message.run.coordinator) {
    early_.Take(message.run);
    return Remove(message.run);
  }
  const HostPlan* const plan = IsOwn(message.run) ? PlanOf(message.run) : nullptr;
  if (plan == nullptr || !plan->hosts().Contains(from)) return;
  if (plan->outlives_hosts()) return LeaveRun(message.run, from, message.status);
  EndEarly(message.run, message.status);
}

std::shared_ptr<const GraphPart> Runtime::FindPart(GraphId graph) const {
  const auto it = graphs_.find(graph);
  return it == graphs_.end() ? nullptr : it->second->part().shared_from_this();
}

size_t Runtime::GraphsWith(const std::string& op) const {
  return std::count_if(graphs_.begin(), graphs_.end(), [&op](const auto& entry) {
    const auto& nodes = entry.second->part().nodes();
    return std::any_of(nodes.begin(), nodes.end(), [&op](const auto& node) { return node.node.op == op; });
  });
}

size_t Runtime::waiting_bytes(HostId host) const {
  auto it = flows_.find(host);
  return it == flows_.end() ? 0 : it->second.waiting_bytes(false) + it->second.waiting_bytes(true);
}

}  // namespace pw::dataflow
