// Operator: the code that runs at a node of a graph. A host makes one Operator per run and node; it handles all of the node's
// shards on that host. Shards on other hosts take nothing here.
//
//   class Sum : public Operator {
//     void OnTuple(Shard& shard, EdgeId, Tuple tuple) override { sums_[shard.index()] += Decode(tuple); }
//     void OnInputsClosed(Shard& shard) override {
//       for (EdgeId out : shard.outputs()) shard.Send(out, 0, Encode(sums_[shard.index()]));
//       shard.Finish();
//     }
//   };
//
// An operator is destroyed when its run is over or has ended early; nothing can be sent afterwards. Code that finishes a shard
// later, outside a callback, keeps a ShardRef and asks the runtime for the shard (Runtime::With).
//
// Invariants:
//   OP-1  callbacks of one shard: OnStart; then OnTuple and OnInputClosed in order of arrival; after the last input has closed,
//         OnInputsClosed or OnPoisoned, once. No callback comes after Finish
//   OP-2  every tuple of an edge comes before the edge's OnInputClosed
//   OP-3  no tuple is lost silently: a shard that could not send a tuple ends with that error, unless it finishes with another
//         one. So does a shard that finishes without a tuple that a single edge demands (graph.h)
//   OP-4  a run begins on a host with OnStart of all its shards there, in the order of the nodes, and within a node of the shards. Only
//         shards without inputs have another callback before the last OnStart
//
// Everything runs on the runtime's strand; callbacks must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph/graph_part.h"
#include "pathways/dataflow/tuple.h"

namespace pw::dataflow {

class Run;
class Shard;

// Names a shard; it may outlive the run.
struct ShardRef {
  RunId run;
  NodeId node;
  uint32_t shard = 0;
};

// One shard of a node in one run. Lives as long as the run on this host.
class Shard {
 public:
  uint32_t index() const { return index_; }
  ShardRef ref() const;
  const GraphPart& graph() const;       // as far as this host knows it
  const std::string& argument() const;  // of the run, for this host
  const std::vector<EdgeId>& outputs() const;
  bool finished() const { return finished_; }

  // Sends a tuple to shard `destination` of the edge's destination node.
  // REQUIRES: `edge` is one of outputs(), and the shard has not finished.
  // A tuple that the edge does not allow is not sent: the shard ends with an error (OP-3).
  void Send(EdgeId edge, uint32_t destination, Tuple tuple);
  // Returns false while too many bytes are queued on the way to `destination`. A well-behaved operator then stops sending until
  // OnWritable.
  bool CanSend(EdgeId edge, uint32_t destination);
  // Ends the shard: it sends nothing more. An error poisons the shards that depend on it, except those that have its tuple of a single
  // edge already.
  void Finish(const absl::Status& status = absl::OkStatus());

 private:
  friend class Run;

  Run* run_ = nullptr;
  uint32_t slot_ = 0;  // its node's position among the run's nodes on this host
  uint32_t index_ = 0;
  uint32_t open_inputs_ = 0;
  EdgeId poison_edge_;
  absl::Status poison_;  // the error of poison_edge_, the lowest edge with an error
  absl::Status send_error_;
  bool finished_ = false;
  bool waiting_ = false;  // for OnWritable
};

class Operator {
 public:
  virtual ~Operator() = default;
  virtual void OnStart(Shard& shard) {}
  virtual void OnTuple(Shard& shard, EdgeId edge, Tuple tuple) {}
  // All tuples of this edge for this shard have come. `status` is an error if a source shard failed, or its host was lost.
  virtual void OnInputClosed(Shard& shard, EdgeId edge, const absl::Status& status) {}
  // Every input has closed, none with an error. Without inputs, comes directly after OnStart.
  virtual void OnInputsClosed(Shard& shard) { shard.Finish(); }
  // Every input has closed, and at least one had an error.
  virtual void OnPoisoned(Shard& shard, const absl::Status& error) { shard.Finish(error); }
  // There is room again after CanSend returned false.
  virtual void OnWritable(Shard& shard) {}
};

struct OperatorContext {
  HostId self;
  RunId run;
  const GraphPart& graph;
  NodeId node;
  const std::vector<uint32_t>& shards;  // of the node, on this host
  const std::string& argument;          // of the run, for this host
};

// A registry of the operators that a host knows, by the name in Node::op. Filled where the host is wired.
class Operators {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Operator>>(const OperatorContext&)>;

  void Add(std::string name, Factory factory) { factories_[std::move(name)] = std::move(factory); }
  // UNIMPLEMENTED if this host does not know the node's operator.
  absl::StatusOr<std::unique_ptr<Operator>> Make(const OperatorContext& context) const;

 private:
  std::map<std::string, Factory> factories_;
};

}  // namespace pw::dataflow
