// Operators: what runs at the nodes of a graph. One Operator object per run and node on a host has charge of all of that node's
// shards on the host; nothing is instantiated for shards elsewhere.
//
//   class Sum : public Operator {
//     void OnTuple(Shard& shard, EdgeId, Tuple tuple) override { sums_[shard.index()] += Decode(tuple); }
//     void OnInputsClosed(Shard& shard) override {
//       for (EdgeId out : shard.outputs()) shard.Send(out, 0, Encode(sums_[shard.index()]));
//       shard.Finish();
//     }
//   };
//
// An operator is destroyed when its run is over, or has ended early: then nothing can be sent any more. Whoever finishes a shard
// later, from outside a callback, keeps a ShardRef and asks the runtime for the shard (Runtime::With).
//
// Invariants:
//   OP-1  callbacks of one shard: OnStart; then OnTuple and OnInputClosed as they come; after the last input closed,
//         OnInputsClosed or OnPoisoned, once. Nothing after Finish
//   OP-2  every tuple of an edge comes before the edge's OnInputClosed
//   OP-3  a shard that cannot send a tuple ends with that error, whatever its Finish says: no tuple is lost in silence
// Everything on the runtime's strand; callbacks must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/dataflow/graph.h"
#include "pathways/dataflow/tuple.h"

namespace pw::dataflow {

class Run;
class Shard;

// Names a shard for longer than its run may live.
struct ShardRef {
  RunId run;
  NodeId node;
  uint32_t shard = 0;
};

// One shard of a node, in one run. Lives as long as the run.
class Shard {
 public:
  uint32_t index() const { return index_; }
  ShardRef ref() const;
  const Graph& graph() const;
  const std::string& argument() const;  // of the run
  const std::vector<EdgeId>& outputs() const;
  bool finished() const { return finished_; }

  // REQUIRES: `edge` is one of outputs(), and the shard has not finished.
  void Send(EdgeId edge, uint32_t destination, Tuple tuple);
  // False while much waits on the way there: a good operator stops until OnWritable.
  bool CanSend(EdgeId edge, uint32_t destination);
  // Nothing more will be sent. An error poisons what depends on this shard.
  void Finish(const absl::Status& status = absl::OkStatus());

 private:
  friend class Run;

  Run* run_ = nullptr;
  uint32_t slot_ = 0;  // of its node, in the run
  uint32_t index_ = 0;
  uint32_t open_inputs_ = 0;
  EdgeId poison_edge_;
  absl::Status poison_;  // of the first input that is poisoned, in the order of the edges
  absl::Status send_error_;
  bool finished_ = false;
  bool waiting_ = false;  // for OnWritable
};

class Operator {
 public:
  virtual ~Operator() = default;
  virtual void OnStart(Shard& shard) {}
  virtual void OnTuple(Shard& shard, EdgeId edge, Tuple tuple) {}
  // All tuples of this edge for this shard have come; with an error if a shard before it failed.
  virtual void OnInputClosed(Shard& shard, EdgeId edge, const absl::Status& status) {}
  // Every input has closed, none with an error (at once after OnStart, if there are no inputs).
  virtual void OnInputsClosed(Shard& shard) { shard.Finish(); }
  // Every input has closed, and something that this shard depends on has failed.
  virtual void OnPoisoned(Shard& shard, const absl::Status& error) { shard.Finish(error); }
  // CanSend said no; there is room again.
  virtual void OnWritable(Shard& shard) {}
};

struct OperatorContext {
  HostId self;
  RunId run;
  const Graph& graph;
  NodeId node;
  const std::vector<uint32_t>& shards;  // of the node, on this host
  const std::string& argument;          // of the run
};

// The operators that a host knows, by the name that nodes call them. Made and filled by whoever wires the host.
class Operators {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Operator>>(const OperatorContext&)>;

  void Add(std::string name, Factory factory) { factories_[std::move(name)] = std::move(factory); }
  // UNIMPLEMENTED if this host does not know it.
  absl::StatusOr<std::unique_ptr<Operator>> Make(const OperatorContext& context) const;

 private:
  std::map<std::string, Factory> factories_;
};

}  // namespace pw::dataflow
