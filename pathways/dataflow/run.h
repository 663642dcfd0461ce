// Run: one host's part of one run of a graph: the operators of the nodes that have shards here, and the progress of their edges.
// The Runtime makes one per run, and hands it the frames' tuples and reports.
//
// Tuples and closings between shards of this host pass through the run's queue. Step handles one of them at a time, never inside a
// callback. Messages to other hosts leave through the Courier. When all shards here have finished and all edges are done on this
// host, the host reports on the end edge (host_plan.h). When the end edge is finished too, the run is over here, and the Runtime
// frees it.
//
// A run's status is an error that no shard handled: a shard ended with it and could not send it on. Such a shard has no outputs,
// or all are single edges that have had their tuples. Each host reports its first such error; the lowest host's error counts.
//
// In a graph that outlives its hosts, a lost host's shards fail (LoseHost), and the run goes on without it. The host counts as through.
// Its loss is an error that no shard handled only if it had a shard of a node without outputs, and had not reported its end.
//
// Invariants:
//   RU-1  after `over()` this host has nothing of this run left to send or to wait for
//   RU-2  a message of another host that does not fit the graph returns an error, and changes nothing
//   RU-3  memory is O(shards and edges here), plus tuples in the queue
// Strand-confined.
#pragma once

#include <algorithm>
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

// Courier: takes a run's messages to other hosts. The Runtime implements it. Sending only queues the message; it never calls back.
class Courier {
 public:
  virtual ~Courier() = default;
  virtual void SendTuple(HostId to, bool critical, const TupleMessage& message) = 0;
  virtual void SendReport(HostId to, bool critical, const ReportMessage& message) = 0;
  // Returns whether the queue to `to` is below its high-water mark. If not, Writable follows once there is room.
  virtual bool HasRoom(HostId to, bool critical) = 0;
  // RESOURCE_EXHAUSTED if the queue to `to` is at its hard limit.
  virtual absl::Status CheckRoom(HostId to, bool critical) = 0;
  // An event of `bytes` has entered the run's queue: the run has to Step.
  virtual void Queued(RunId run, size_t bytes) = 0;
  // `bytes` have left a run's queue.
  virtual void Unqueued(size_t bytes) = 0;
  // A shard of the run waits for Writable.
  virtual void Waiting(RunId run) = 0;
};

class Run {
 public:
  // `courier` outlives this.
  Run(RunId id, std::shared_ptr<const HostPlan> plan, std::string argument, Courier* courier);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Makes the operators, then starts their shards.
  absl::Status Start(const Operators& operators);
  absl::Status OnTuple(HostId from, TupleMessage message);
  absl::Status OnReport(HostId from, const ReportMessage& message);
  // Fails the shards on a lost host, and ignores its messages from now on. REQUIRES: plan().outlives_hosts(), and the host is not the
  // coordinator.
  void LoseHost(HostId host, const absl::Status& status);
  // Handles one event of the queue. Returns false if the queue was empty.
  bool Step();
  // Calls OnWritable for the shards that wait for room.
  void Writable();

  RunId id() const { return id_; }
  const HostPlan& plan() const { return *plan_; }
  // Returns nullptr if the shard is not on this host.
  Shard* Find(NodeId node, uint32_t shard);
  bool over() const { return end_.finished(); }
  // The run's status; set at the coordinator when all hosts are through. Without reports of ends: the status here, when this host is.
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
    uint64_t sequence;    // if is_tuple
    Tuple tuple;          // if is_tuple
    absl::Status status;  // otherwise: the status with which the edge closes
  };

  void SendFrom(Shard& shard, EdgeId edge, uint32_t destination, Tuple tuple);
  absl::Status CheckSend(const Shard& shard, uint32_t edge_slot, uint32_t destination) const;
  void Put(uint32_t edge_slot, uint64_t sequence, uint32_t destination, Tuple tuple);
  absl::Status EndOf(const Shard& shard, const absl::Status& status) const;
  bool CanSendFrom(Shard& shard, EdgeId edge, uint32_t destination);
  void FinishShard(Shard& shard, const absl::Status& status);
  void StartShard(NodeState& node, Shard& shard);
  void Deliver(uint32_t edge_slot, uint32_t shard, Tuple tuple);
  void Close(uint32_t edge_slot, uint32_t shard, const absl::Status& status);
  void InputsClosed(NodeState& node, Shard& shard);
  bool HasLost(HostId host) const { return std::find(lost_.begin(), lost_.end(), host) != lost_.end(); }
  void Apply(uint32_t edge_slot, const EdgeProgress::Effects& effects);
  void ApplyEnd(const EdgeProgress::Effects& effects);
  void EndIfDone();
  void Push(Event event);
  static void AddPoison(Shard& shard, EdgeId edge, const absl::Status& status);
  Shard& ShardAt(NodeState& node, const std::vector<uint32_t>& shards, uint32_t shard);
  const Edge& EdgeAt(uint32_t edge_slot) const { return *plan_->edges()[edge_slot].edge; }

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
  absl::Status error_;  // the first unhandled error
  std::optional<absl::Status> outcome_;
  std::vector<HostId> lost_;
  std::deque<Event> queue_;
  size_t queued_bytes_ = 0;
};

}  // namespace pw::dataflow
