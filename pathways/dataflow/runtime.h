// Runtime: the dataflow on one host. Runs instances of graphs together with the runtimes of the other hosts that have shards in
// them; all are equal, and any of them may install graphs and start runs, whose coordinator it then is.
//
//   GraphId graph = runtime.Install(MakeGraph());                    // once: to every host that has a shard of it
//   RunId run = runtime.Start(graph, {.argument = ..., .on_tuple = ..., .on_done = ...});
//
// Messages. A start costs one message per host, the end of a run one report per host, each edge a few reports per host that has a
// part in it (progress/edge_plan.h), tuples what they are, coalesced unless their edge is critical (batching.h). Nothing is sent
// per shard.
//
// Ends. A run is over when all its shards on all hosts have finished and everything sent has arrived; its memory is freed on each
// host when that host is through. It ends early, everywhere, by Cancel, when a host it depends on is lost (UNAVAILABLE naming the
// host), when the way between two hosts that talk with each other in it breaks, or when a host breaks the rules. Errors of shards do not end it: they travel along the edges as values.
//
// Invariants:
//   RT-1  on_done comes exactly once for each run that was started, the last call for that run, unless the runtime is destroyed
//         before
//   RT-2  losing a host ends exactly the runs that have a shard there, or that it coordinates
//   RT-3  memory is bounded by the runs that live: queues between hosts by the flow knobs (link_flow.h), what comes too early by
//         max_early_bytes; runs that are over leave nothing
//   RT-4  nothing that a peer sends can break a PW_CHECK; a malformed frame loses that peer, what does not fit a run ends that
//         run
// Lives on one strand, like everything it calls.
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
#include "pathways/base/clock.h"
#include "pathways/base/timer_queue.h"
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
  size_t local_high_water_bytes = 16 << 20;  // of tuples between shards of this host
  size_t local_hard_limit_bytes = 1 << 30;
  size_t max_early_bytes = 64 << 20;     // for runs whose start has not come
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

// What the starter of a run gives and wants. The callbacks come on the strand; any may be empty.
struct RunOptions {
  std::string argument;
  // From nodes whose operator is kResultOp, which must be placed on the coordinator.
  std::function<void(NodeId node, uint32_t shard, Tuple tuple)> on_tuple;
  std::function<void(NodeId node, uint32_t shard, const absl::Status& status)> on_closed;
  std::function<void(const absl::Status& status)> on_done;
};

// A shard that fails is missing in what the run gives, which is all: without on_closed its error is the run's.
inline void OverlookFailedShards(RunOptions& options) {
  options.on_closed = [](NodeId, uint32_t, const absl::Status&) {};
}

// The operator of nodes that hand what they receive to the run's starter.
inline constexpr char kResultOp[] = "result";

class Runtime : private Links::Handler, private Courier {
 public:
  // Everything outlives this. Timers post to `strand`; without them nothing waits to be coalesced beyond a turn of the strand.
  struct Environment {
    HostId self;
    Executor* strand = nullptr;
    Clock* clock = nullptr;
    Timers* timers = nullptr;
    Links* links = nullptr;
    const Operators* operators = nullptr;
  };

  Runtime(const Environment& environment, const RuntimeKnobs& knobs);
  ~Runtime() override;

  // UNAVAILABLE: a host of it is lost.
  absl::StatusOr<GraphId> Install(std::shared_ptr<const Graph> graph) { return Install(std::move(graph), knobs_.progress); }
  absl::StatusOr<GraphId> Install(std::shared_ptr<const Graph> graph, const ProgressKnobs& progress);
  // Runs of it go on.
  void Uninstall(GraphId graph);
  // on_done tells of every failure. REQUIRES: the graph was installed here, and not uninstalled.
  RunId Start(GraphId graph, RunOptions options);
  // Ends a run that was started here, everywhere, with that status. Unless it is over.
  void Cancel(RunId run, const absl::Status& status);
  // Calls f with the shard, for operators that go on outside their callbacks. False: it is not here, or its run is over.
  bool With(const ShardRef& ref, absl::FunctionRef<void(Shard&)> f);

  // When messages that can wait leave, from now on.
  void SetBatching(const BatchingKnobs& knobs);

  size_t live_runs() const { return runs_.size(); }
  const RuntimeCounters& counters() const { return counters_; }
  const BatchingCounters& batching_counters() const { return batcher_.counters(); }
  size_t waiting_bytes(HostId host) const;

 private:
  struct OwnRun {
    std::shared_ptr<const RunOptions> options;
    std::shared_ptr<const HostPlan> plan;
    GraphId graph;
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
  bool IsOwn(RunId run) const { return run.coordinator == environment_.self; }
  void Post(absl::AnyInvocable<void(Runtime&) &&> task);
  // Forgets what waits for the host, and ends the runs of which `ends` says so.
  void EndWith(HostId host, const absl::Status& status, absl::FunctionRef<bool(const Run&)> ends);
  absl::Status LostAmong(const HostSet& hosts) const;

  // Runs.
  void Begin(RunId id);
  void StartHere(RunId id, std::shared_ptr<const HostPlan> plan, std::string argument);
  void EndIfOver(RunId id);
  void EndEarly(RunId id, const absl::Status& status);
  void Remove(RunId id);
  void Done(uint64_t own_run, const absl::Status& status);
  void Violated(RunId id, HostId by, const absl::Status& status);

  // Frames.
  void Take(HostId from, const net::Frame& frame);
  void TakeInstall(HostId from, InstallMessage& message);
  void TakeStart(HostId from, StartMessage& message);
  void TakeEnd(HostId from, const EndMessage& message);
  template <class Message>
  void TakeForRun(HostId from, Message message);
  absl::Status HandTo(Run* run, HostId from, TupleMessage message) { return run->OnTuple(from, std::move(message)); }
  absl::Status HandTo(Run* run, HostId from, ReportMessage message) { return run->OnReport(from, message); }

  // The loop.
  // Handles all there is to handle, unless that is being done already.
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
  Operators operators_;  // the environment's, and our own
  Batcher batcher_;
  absl::flat_hash_map<HostId, LinkFlow> flows_;
  absl::flat_hash_map<GraphId, std::shared_ptr<const HostPlan>> graphs_;
  absl::flat_hash_map<RunId, std::unique_ptr<Run>> runs_;
  std::vector<std::unique_ptr<Run>> removed_;  // freed when nothing of them is on the stack
  std::map<uint64_t, OwnRun> own_runs_;
  uint64_t next_graph_ = 1, next_run_ = 1;
  RetiredRuns retired_;
  EarlyMessages early_;
  absl::flat_hash_map<HostId, absl::Status> lost_;

  std::deque<RunId> ready_;  // runs with something in their queue, each once
  absl::flat_hash_set<RunId> is_ready_;
  std::deque<std::pair<HostId, net::Frame>> inbound_;  // bounded by the senders' windows
  std::set<RunId> waiting_runs_;                       // with shards that wait for room
  bool room_changed_ = false;
  size_t local_bytes_ = 0;
  bool local_full_ = false;
  bool busy_ = false;  // inside the loop, or inside calls into runs
  bool posted_ = false;
  bool timer_armed_ = false;
  RuntimeCounters counters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::dataflow
