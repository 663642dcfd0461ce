// Runtime: the dataflow engine of one host. It runs graphs together with the runtimes of the other hosts that have shards in them.
// All runtimes are equal: any of them may install graphs and start runs, and is then their coordinator.
//
//   GraphId graph = runtime.Install(MakeGraph());                    // once: to every host that has a shard of it
//   RunId run = runtime.Start(graph, {.argument = ..., .on_tuple = ..., .on_done = ...});
//
// Messages. Starting a run costs one message per host, and ending it one report per host, unless no host awaits its end
// (HostLoss::kConcernsNobody). Each edge costs a few reports per host that has a part in it (progress/edge_plan.h). Tuples are
// coalesced unless their edge is critical (batching.h). Beside tuples, nothing is sent per shard.
//
// Ends. A run is over when all its shards on all hosts have finished and everything sent has arrived. Each host frees the run's
// memory when its own part is done. Errors of shards do not end a run: they travel along the edges as values. A run ends early,
// on all hosts, in these cases:
//   - Cancel
//   - A host that has a shard in it is lost (UNAVAILABLE naming the host).
//   - The way between two hosts that exchange messages in it breaks.
//   - A host cannot take part in it, or gets a message that does not fit it.
//
// Lost hosts (runtime_losses.cc). If the graph outlives its hosts (HostLoss::kFailsShards), the last three cost the run a host
// instead, and it goes on: that host's shards fail. On each other host, the edges from the lost host close with its error for the
// shards that miss something (progress/edge_progress.h). The coordinator tells the hosts that wait for the lost one, so it does
// not matter which host notices first. If a way between two hosts breaks and neither is the coordinator, each of them is lost to
// the other alone. A host to which the coordinator's own way breaks is lost to the run, like one that was lost before.
//
// Orders (HostLoss::kConcernsNobody). Each host's part of a run is a matter of that host alone. For the coordinator such a run is
// over when its own shards have finished, or when the starts have left if it has none. A failed shard is logged on its host.
//
// Invariants:
//   RT-1  each run that was started gets on_done exactly once, as the last callback of that run, unless the runtime is destroyed
//         before
//   RT-2  losing a host ends exactly the runs that it coordinates, and those that have a shard there and whose graph does not outlive its
//         hosts. In the others exactly its own shards fail
//   RT-3  memory is bounded by the live runs: queues between hosts, and tuples that come before their run, by the flow knobs (link_flow.h,
//         early_messages.h), other messages that come before their run by max_early_bytes. Runs that are over leave nothing
//   RT-4  nothing that a peer sends can break a PW_CHECK. A malformed frame loses that peer. A message that does not fit a run ends that
//         run, or costs it a host
//   RT-5  a start keeps its place among other messages to the host. It has left when Start returns, unless tuples for that host
//         wait for room. It takes effect inside OnFrame: any later message finds the run begun
// Lives on one strand; all callbacks come on it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/dataflow/batching.h"
#include "pathways/dataflow/early_messages.h"
#include "pathways/dataflow/link_flow.h"
#include "pathways/dataflow/links.h"
#include "pathways/dataflow/retired_runs.h"
#include "pathways/dataflow/run.h"

namespace pw::dataflow {

struct RuntimeKnobs {
  ProgressKnobs progress;  // of graphs installed here, unless they have their own
  BatchingKnobs batching;
  FlowKnobs flow;
  size_t local_high_water_bytes = 16 << 20;  // for queued tuples between shards of this host
  size_t local_hard_limit_bytes = 1 << 30;
  size_t max_early_bytes =
      64 << 20;  // for messages of runs whose start has not come, except tuples whose senders wait (early_messages.h)
  uint32_t max_local_shards = 1u << 20;  // of one graph
};

struct RuntimeCounters {
  uint64_t tuples_local = 0;
  uint64_t tuples_sent = 0;
  uint64_t reports_sent = 0;
  uint64_t control_sent = 0;  // installs, starts, ends
  uint64_t frames_sent = 0;
  uint64_t bytes_sent = 0;
};

// The argument and callbacks of a run. The callbacks come on the strand; any may be empty.
struct RunOptions {
  std::string argument;                                 // for all hosts
  std::function<std::string(HostId host)> argument_of;  // or: for each host of the graph its own; called inside Start
  // From nodes whose operator is kResultOp, which must be placed on the coordinator.
  std::function<void(NodeId node, uint32_t shard, Tuple tuple)> on_tuple;
  std::function<void(NodeId node, uint32_t shard, const absl::Status& status)> on_closed;
  std::function<void(const absl::Status& status)> on_done;
};

// Lets a run succeed without the results of failed shards. Without on_closed, their error is the run's status.
inline void OverlookFailedShards(RunOptions& options) {
  options.on_closed = [](NodeId, uint32_t, const absl::Status&) {};
}

// The operator of result nodes, which pass their tuples to the callbacks in RunOptions (result_operator.h).
inline constexpr char kResultOp[] = "result";

class Runtime : private Links::Handler, private Courier {
 public:
  // All pointers outlive the runtime. Timers post to `strand`. Without timers, coalesced messages leave at the end of each turn of
  // the strand.
  struct Environment {
    HostId self;
    Executor* strand = nullptr;
    Clock* clock = nullptr;
    Timers* timers = nullptr;
    Links* links = nullptr;
    const Operators* operators = nullptr;
    // Told of runs of other coordinators that this host has refused, with their argument for this host. Called inside OnFrame; may be null.
    std::function<void(const std::string& argument, const absl::Status& why)> on_refused{};
  };

  Runtime(const Environment& environment, const RuntimeKnobs& knobs);
  ~Runtime() override;

  // Installs the graph: each of its hosts gets its part. UNAVAILABLE: one of its hosts is lost already (not for orders).
  absl::StatusOr<GraphId> Install(std::shared_ptr<const Graph> graph) { return Install(std::move(graph), knobs_.progress); }
  absl::StatusOr<GraphId> Install(std::shared_ptr<const Graph> graph, const ProgressKnobs& progress);
  // Removes the graph from all its hosts. Its live runs go on.
  void Uninstall(GraphId graph);
  // Starts a run. Reports every failure through on_done. REQUIRES: the graph was installed here, and not uninstalled.
  RunId Start(GraphId graph, RunOptions options);
  // Ends a run that was started here, on all hosts, with this status. Does nothing if the run is over.
  void Cancel(RunId run, const absl::Status& status);
  // Calls f with the shard, for operators that go on outside their callbacks. Returns false if the shard is not on this host or
  // its run is over.
  bool With(const ShardRef& ref, absl::FunctionRef<void(Shard&)> f);

  // Flushes waiting messages, and uses `knobs` for later ones.
  void SetBatching(const BatchingKnobs& knobs);

  // Returns this host's part of an installed graph, of any coordinator; null if it is not installed here.
  std::shared_ptr<const GraphPart> FindPart(GraphId graph) const;

  size_t live_runs() const { return runs_.size(); }
  // Returns the number of installed graphs, of any coordinator, that have a node with this operator here.
  size_t GraphsWith(const std::string& op) const;
  const RuntimeCounters& counters() const { return counters_; }
  const BatchingCounters& batching_counters() const { return batcher_.counters(); }
  size_t waiting_bytes(HostId host) const;
  // The memory of messages of runs whose start has not come.
  size_t early_bytes() const { return early_.bytes(); }

 private:
  // How many windows of early tuples a sender may have here. One that keeps to its windows has one and a frame on each of two lanes.
  static constexpr size_t kEarlyWindows = 4;

  struct OwnRun {
    std::shared_ptr<const RunOptions> options;
    std::shared_ptr<const HostPlan> plan;
    GraphId graph;
    std::string argument;                   // for this host
    std::map<HostId, absl::Status> left{};  // hosts that the run goes on without
  };

  // A frame whose installs and starts have been taken.
  struct Inbound {
    HostId from;
    FrameContents contents;
    size_t bytes = 0;
  };

  // Links::Handler
  void OnFrame(HostId from, net::Frame frame) override;
  void OnPeerLost(HostId host, const absl::Status& reason) override;
  void OnPeerBroken(HostId host, const absl::Status& reason) override;
  // Courier
  void SendTuple(HostId to, bool critical, const TupleMessage& message) override;
  void SendReport(HostId to, bool critical, const ReportMessage& message) override;
  bool HasRoom(HostId to, bool critical) override;
  absl::Status CheckRoom(HostId to, bool critical) override;
  void Queued(RunId run, size_t bytes) override;
  void Unqueued(size_t bytes) override;
  void Waiting(RunId run) override { waiting_runs_.insert(run); }

  template <class Message>
  void SendControl(const HostSet& to, const Message& message);
  template <class Message>
  void SendControl(HostId to, const Message& message);
  void SendInstall(HostId to, GraphId id, const HostPlan& plan);
  bool IsOwn(RunId run) const { return run.coordinator == environment_.self; }
  void Post(absl::AnyInvocable<void(Runtime&) &&> task);

  // Losses.
  void DropQueues(HostId host);
  // Ends the runs that the host coordinates. Other runs that `concerned` selects end too, or go on without the host.
  void Leave(HostId host, const absl::Status& status, std::set<HostId> coordinators,
             absl::FunctionRef<bool(const HostPlan&)> concerned);
  void LeaveRun(RunId id, HostId host, const absl::Status& status);
  void FailShardsOn(HostId host, RunId id, const absl::Status& status);
  std::vector<RunId> LiveRuns() const;
  const HostPlan* PlanOf(RunId id) const;
  absl::Status LostAmong(const HostSet& hosts) const;
  absl::Status CheckHosts(const HostPlan& plan) const;
  void FailLostHosts(RunId id);

  // Runs.
  void Begin(RunId id);
  absl::Status StartHere(RunId id, std::shared_ptr<const HostPlan> plan, std::string argument);
  absl::Status TryStart(HostId from, RunId id, StartMessage& message);
  void EndIfOver(RunId id);
  void EndEarly(RunId id, const absl::Status& status);
  void Remove(RunId id);
  void Done(uint64_t own_run, const absl::Status& status);
  void Violated(RunId id, HostId by, const absl::Status& status);

  // Frames.
  void Take(Inbound frame);
  void TakeInstall(HostId from, InstallMessage& message);
  void TakeStart(HostId from, StartMessage& message);
  void TakeBroken(HostId from, const BrokenMessage& message);
  void TakeLost(HostId from, const LostMessage& message);
  void TakeEnd(HostId from, const EndMessage& message);
  Run* RunOf(RunId id) const;
  // Whether the run of a message that came now is over.
  bool IsLate(RunId id) const { return IsOwn(id) || retired_.Contains(id); }
  size_t TakeTuple(HostId from, bool critical, TupleMessage message);
  void TakeReport(HostId from, ReportMessage message);
  template <class Message>
  void TakeForRun(HostId from, Message message);
  void Return(HostId to, bool critical, size_t bytes);
  absl::Status HandTo(Run* run, HostId from, TupleMessage message) { return run->OnTuple(from, std::move(message)); }
  absl::Status HandTo(Run* run, HostId from, ReportMessage message) { return run->OnReport(from, message); }

  // The loop.
  // Handles all pending events, up to a turn's budget. Does nothing if called from inside the loop or a run.
  void Settle();
  bool SettleOne();
  void StepRuns();
  bool TellWritable();
  void AfterEvent();
  void Emit(HostId to, bool critical, FrameBuilder frame);
  void Pump(HostId to, bool critical);
  void SendFrame(HostId to, bool critical, FrameBuilder frame);
  void ArmTimer();
  LinkFlow& FlowTo(HostId host);

  const Environment environment_;
  const RuntimeKnobs knobs_;
  Operators operators_;  // the environment's, and kResultOp
  Batcher batcher_;
  absl::flat_hash_map<HostId, LinkFlow> flows_;
  absl::flat_hash_map<GraphId, std::shared_ptr<const HostPlan>> graphs_;
  absl::flat_hash_map<RunId, std::unique_ptr<Run>> runs_;
  std::vector<std::unique_ptr<Run>> removed_;  // freed once none of their methods is on the stack
  std::map<uint64_t, OwnRun> own_runs_;
  uint64_t next_graph_ = 1, next_run_ = 1;
  RetiredRuns retired_;
  EarlyMessages early_;
  absl::flat_hash_map<HostId, absl::Status> lost_;

  std::deque<RunId> ready_;  // runs with events in their queue, each once
  absl::flat_hash_set<RunId> is_ready_;
  std::deque<Inbound> inbound_;   // bounded by the senders' windows
  std::set<RunId> waiting_runs_;  // with shards that wait for room
  bool room_changed_ = false;
  size_t local_bytes_ = 0;
  bool local_full_ = false;
  bool busy_ = false;  // inside the loop, or inside a call into a run
  bool posted_ = false;
  bool timer_armed_ = false;
  RuntimeCounters counters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

template <class Message>
void Runtime::SendControl(HostId to, const Message& message) {
  if (to == environment_.self || lost_.contains(to)) return;
  ++counters_.control_sent;
  batcher_.Add(to, true, message);
}

template <class Message>
void Runtime::SendControl(const HostSet& to, const Message& message) {
  for (uint32_t i = 0; i < to.size(); ++i) SendControl(to.At(i), message);
}

}  // namespace pw::dataflow
