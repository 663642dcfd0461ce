// Operators that forward their tuples, and a chain of them, for tests of the runtime.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/dataflow/testing/placements.h"
#include "pathways/dataflow/testing/runtime_world.h"

namespace pw::dataflow {

// Sends one tuple, with its index and all it received, to each destination that its outputs allow.
inline std::unique_ptr<FunctionOperator> Forwarder() {
  auto op = std::make_unique<FunctionOperator>();
  auto seen = std::make_shared<std::map<uint32_t, std::string>>();
  op->on_tuple = [seen](Shard& shard, EdgeId, Tuple tuple) { (*seen)[shard.index()] += std::string(tuple.data.view()); };
  op->on_inputs_closed = [seen](Shard& shard) {
    for (EdgeId out : shard.outputs()) {
      const Edge& edge = shard.graph().edge(out);
      const uint32_t shards = shard.graph().destination(out).num_shards();
      const std::string text = absl::StrCat((*seen)[shard.index()], shard.graph().node(edge.from).name, shard.index(), " ");
      if (edge.kind == EdgeKind::kOneToOne) {
        shard.Send(out, shard.index(), TupleOf(text));
      } else {
        for (uint32_t s = 0; s < shards; ++s) shard.Send(out, s, TupleOf(text));
      }
    }
    shard.Finish();
  };
  return op;
}

inline Operators WithForward() {
  Operators operators;
  operators.Add("forward", MakeOf(Forwarder));
  operators.Add("fail2", MakeOf([] {
                  auto op = Forwarder();
                  op->on_inputs_closed = [forward = op->on_inputs_closed](Shard& shard) {
                    shard.index() == 2 ? shard.Finish(absl::AbortedError("two is broken")) : forward(shard);
                  };
                  return op;
                }));
  operators.Add("never", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard&) {};
                  return op;
                }));
  return operators;
}

struct Outcome {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::string>> tuples;  // by result node and shard
  std::map<std::pair<uint32_t, uint32_t>, absl::Status> closed;
  std::vector<absl::Status> done;

  RunOptions Options(std::string argument = "") {
    RunOptions options;
    options.argument = std::move(argument);
    options.on_tuple = [this](NodeId n, uint32_t s, Tuple t) { tuples[{n.v, s}].emplace_back(t.data.view()); };
    options.on_closed = [this](NodeId n, uint32_t s, const absl::Status& status) { closed[{n.v, s}] = status; };
    options.on_done = [this](const absl::Status& status) { done.push_back(status); };
    return options;
  }
};

inline GraphId Chain(Runtime& runtime, PlacementRef where, const std::string& a = "forward", EdgeKind last = EdgeKind::kGather,
                     uint32_t result_shards = 1) {
  auto graph = Graph::Create({{"arg", "forward", "", where},
                              {"a", a, "", where},
                              {"b", "forward", "", where},
                              {"result", kResultOp, "", Over(1, result_shards)}},
                             {{NodeId(0), NodeId(1)}, {NodeId(1), NodeId(2)}, {NodeId(2), NodeId(3), last}});
  PW_CHECK(graph.ok());
  auto id = runtime.Install(*graph);
  PW_CHECK(id.ok());
  return *id;
}

}  // namespace pw::dataflow
