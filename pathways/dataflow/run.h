// Run: one run of a graph, as one host sees it: operators for the nodes that have shards here, progress for the edges that touch
// them.
//
// Tuples and closings between shards of this host pass through a queue of the run and are handled one at a time (Step), never
// from inside a callback; what goes to other hosts leaves through the Courier. When all shards here have finished and all edges
// are done with this host, it reports to the run's end; when that is done too the run is over here and its memory is freed.
//
// A run's own status is the first error with which a shard of a node without outputs ended: an error that nobody handled. By
// host, the lowest counts.
//
// Invariants:
//   RU-1  after `over()` nothing of this run has still to be sent or awaited by this host
//   RU-2  what other hosts send and does not fit the graph gives a status, and changes nothing
//   RU-3  memory is O(shards and edges here), plus tuples in the queue
// Strand-confined.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pathways/dataflow/frame.h"
#include "pathways/dataflow/host_plan.h"
#include "pathways/dataflow/operator.h"

namespace pw::dataflow {

// The way out of a run. Sending adds to what waits for a host; it never calls back.
class Courier {
 public:
  virtual ~Courier() = default;
  virtual void SendTuple(HostId to, bool critical, const TupleMessage& message) = 0;
  virtual void SendReport(HostId to, bool critical, const ReportMessage& message) = 0;
  // Whether a good operator may go on sending there; if not, Writable follows.
  virtual bool HasRoom(HostId to, bool critical) = 0;
  // RESOURCE_EXHAUSTED if not even a bad one may.
  virtual absl::Status CheckRoom(HostId to, bool critical) = 0;
  // The run has something to Step. So many bytes have entered its queue.
  virtual void Queued(RunId run, size_t bytes) = 0;
  virtual void Unqueued(size_t bytes) = 0;
  // A shard of it waits for Writable.
  virtual void Waiting(RunId run) = 0;
};

class Run {
 public:
  // `courier` outlives this.
  Run(RunId id, std::shared_ptr<const HostPlan> plan, std::string argument, Courier* courier);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Makes the operators and starts their shards.
  absl::Status Start(const Operators& operators);
  absl::Status OnTuple(HostId from, TupleMessage message);
  absl::Status OnReport(HostId from, const ReportMessage& message);
  // Handles one thing of the queue. False: there was none.
  bool Step();
  void Writable();

  RunId id() const { return id_; }
  const HostPlan& plan() const { return *plan_; }
  // nullptr if it is not here.
  Shard* Find(NodeId node, uint32_t shard);
  bool over() const { return end_.finished(); }
  // At the coordinator, once all hosts are through: how it ended.
  const std::optional<absl::Status>& outcome() const { return outcome_; }

 private:
  friend class Shard;
  struct NodeState {
    std::unique_ptr<Operator> op;
    std::vector<Shard> shards;
  };
  struct Event {
    bool is_tuple;
    uint32_t edge_slot;
    uint32_t shard;
    Tuple tuple;          // of a tuple
    absl::Status status;  // of a closing
  };

  void SendFrom(Shard& shard, EdgeId edge, uint32_t destination, Tuple tuple);
  bool CanSendFrom(Shard& shard, EdgeId edge, uint32_t destination);
  void FinishShard(Shard& shard, const absl::Status& status);
  void StartShard(NodeState& node, Shard& shard);
  void Deliver(uint32_t edge_slot, uint32_t shard, Tuple tuple);
  void Close(uint32_t edge_slot, uint32_t shard, const absl::Status& status);
  void InputsClosed(NodeState& node, Shard& shard);
  void Apply(uint32_t edge_slot, const EdgeProgress::Effects& effects);
  void ApplyEnd(const EdgeProgress::Effects& effects);
  void EndIfDone();
  void Push(Event event);
  static void AddPoison(Shard& shard, EdgeId edge, const absl::Status& status);
  Shard& ShardAt(NodeState& node, const std::vector<uint32_t>& shards, uint32_t shard);
  const Edge& EdgeAt(uint32_t edge_slot) const { return plan_->graph().edge(plan_->edges()[edge_slot].id); }

  const RunId id_;
  const std::shared_ptr<const HostPlan> plan_;
  const std::string argument_;
  Courier* const courier_;
  std::vector<NodeState> nodes_;     // by slot
  std::vector<EdgeProgress> edges_;  // by slot
  EdgeProgress end_;
  uint32_t unfinished_shards_ = 0;
  bool starting_ = true;
  bool end_reported_ = false;
  absl::Status error_;  // that nobody handled, the first
  std::optional<absl::Status> outcome_;
  std::deque<Event> queue_;
  size_t queued_bytes_ = 0;
};

}  // namespace pw::dataflow
