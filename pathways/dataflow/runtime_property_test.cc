// Runs random graphs on whole runtimes over memory transports, several runs at a time and in random order, and compares them with
// a model of every tuple. Each tuple arrives once, at the right shard, before its edge closes; every run ends with the right
// status; no run is left. In some worlds runs are cancelled, or hosts die, at random moments.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/testing/random_graphs.h"
#include "pathways/dataflow/testing/runtime_world.h"
#include "rapidcheck.h"

namespace pw::dataflow {
namespace {

struct Model {
  using Key = std::tuple<RunId, EdgeId, uint32_t>;  // destination shard
  Random random{1};
  uint32_t errors = 0;  // a shard fails with a probability of errors / 32
  std::map<Key, std::multiset<std::string>> sent, received;
  std::set<Key> closed;
  std::map<RunId, std::set<std::pair<uint32_t, uint32_t>>> failed;  // (node, shard)
  uint64_t next = 1;
  int operators = 0;  // number that are alive
  std::string problem;

  void Wrong(std::string what) {
    if (problem.empty()) problem = std::move(what);
  }
};

class RandomOperator : public Operator {
 public:
  explicit RandomOperator(Model* model) : model_(model) { ++model_->operators; }
  ~RandomOperator() override { --model_->operators; }

  void OnTuple(Shard& shard, EdgeId edge, Tuple tuple) override {
    const Model::Key key{shard.ref().run, edge, shard.index()};
    if (model_->closed.count(key) > 0) model_->Wrong("a tuple after its edge has closed");
    model_->received[key].insert(std::string(tuple.data.view()));
    SendSome(shard);
  }
  void OnInputClosed(Shard& shard, EdgeId edge, const absl::Status&) override {
    const Model::Key key{shard.ref().run, edge, shard.index()};
    if (!model_->closed.insert(key).second) model_->Wrong("closed twice");
    if (model_->sent[key] != model_->received[key]) model_->Wrong("closed before everything came");
  }
  void OnInputsClosed(Shard& shard) override {
    SendSome(shard);
    if (model_->random.Below(32) >= model_->errors) return shard.Finish();
    model_->failed[shard.ref().run].insert({shard.ref().node.v, shard.index()});
    shard.Finish(absl::AbortedError("as planned"));
  }

 private:
  void SendSome(Shard& shard) {
    for (EdgeId out : shard.outputs()) {
      const bool one_to_one = shard.graph().edge(out).kind == EdgeKind::kOneToOne;
      for (uint32_t n = model_->random.Below(3); n > 0; --n) {
        const uint32_t to = one_to_one ? shard.index() : model_->random.Below(shard.graph().destination(out).num_shards());
        const std::string text = absl::StrCat(model_->next++);
        model_->sent[{shard.ref().run, out, to}].insert(text);
        shard.Send(out, to, TupleOf(text));
      }
    }
  }
  Model* const model_;
};

struct Scenario {
  uint64_t seed = 1;
  uint32_t hosts = 1;
  uint32_t nodes = 3;
  uint32_t shards = 3;
  uint32_t errors = 0;
  bool cancel = false;
  bool kill = false;
};

struct Started {
  std::shared_ptr<const Graph> graph;
  uint32_t coordinator = 0;
  bool cancelled = false;
  std::vector<absl::Status> done;
};

// Returns whether a failure reaches a node without outputs.
bool FailureReachesEnd(const Graph& graph, const std::set<std::pair<uint32_t, uint32_t>>& failed) {
  std::set<std::pair<uint32_t, uint32_t>> poisoned = failed;
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) {
    for (EdgeId in : graph.inputs(NodeId(n))) {
      const uint32_t from = graph.edge(in).from.v;
      for (uint32_t s = 0; s < graph.nodes()[n].placement->num_shards(); ++s) {
        auto it = poisoned.lower_bound({from, 0});
        const bool any = it != poisoned.end() && it->first == from;
        if (graph.edge(in).kind == EdgeKind::kOneToOne ? poisoned.count({from, s}) > 0 : any) poisoned.insert({n, s});
      }
    }
  }
  return std::any_of(poisoned.begin(), poisoned.end(), [&](auto p) { return graph.outputs(NodeId(p.first)).empty(); });
}

void CheckEnds(const std::map<RunId, Started>& started, std::optional<uint32_t> killed, Model& model) {
  for (const auto& [id, run] : started) {
    if (killed == run.coordinator) continue;
    if (run.done.size() != 1) return model.Wrong(absl::StrCat("on_done came ", run.done.size(), " times"));
    const absl::Status& status = run.done[0];
    const bool may_be_lost = killed.has_value() && run.graph->hosts().Contains(HostId(*killed));
    if (status.code() == absl::StatusCode::kUnavailable) {
      if (!may_be_lost || !absl::StrContains(status.message(), absl::StrCat("host ", *killed))) model.Wrong(status.ToString());
    } else if (status.code() == absl::StatusCode::kCancelled) {
      if (!run.cancelled) model.Wrong("cancelled by nobody");
    } else if (status.ok() == FailureReachesEnd(*run.graph, model.failed[id])) {
      model.Wrong(absl::StrCat("ended with ", status.ToString()));
    }
  }
}

std::string Play(const Scenario& scenario) {
  Model model;
  model.random = Random(scenario.seed);
  model.errors = scenario.errors;
  Operators operators;
  operators.Add("random", [&](const OperatorContext&) -> absl::StatusOr<std::unique_ptr<Operator>> {
    return std::make_unique<RandomOperator>(&model);
  });
  RuntimeKnobs knobs;
  knobs.progress = {2 + model.random.Below(3), model.random.Below(8)};
  knobs.batching.max_messages = 1 + model.random.Below(8);
  knobs.flow.window_bytes = 64 + model.random.Below(4000);
  RuntimeWorld world(scenario.hosts, scenario.seed, operators, knobs);
  std::map<RunId, Started> started;
  for (int i = 0; i < 4; ++i) {
    const auto graph = RandomGraph(model.random, scenario.hosts, scenario.nodes, scenario.shards, "random");
    const uint32_t coordinator = model.random.Below(scenario.hosts);
    const GraphId id = *world.at(coordinator).Install(graph);
    for (int k = 0; k < 2; ++k) {
      auto slot = std::make_shared<Started*>(nullptr);
      RunOptions options;
      options.on_done = [slot](const absl::Status& status) { (*slot)->done.push_back(status); };
      const RunId run = world.at(coordinator).Start(id, std::move(options));
      started[run] = {graph, coordinator, false, {}};
      *slot = &started[run];
      if (scenario.cancel && k == 1) {
        for (uint32_t steps = model.random.Below(60); steps > 0; --steps) world.RunOne();
        world.at(coordinator).Cancel(run, absl::CancelledError("as planned"));
        started[run].cancelled = true;
      }
    }
    world.at(coordinator).Uninstall(id);
  }
  std::optional<uint32_t> killed;
  if (scenario.kill && scenario.hosts > 1) {
    for (uint32_t steps = model.random.Below(400); steps > 0; --steps) world.RunOne();
    killed = model.random.Below(scenario.hosts);
    world.Kill(*killed);
    world.TellLost(*killed);
  }
  world.Settle();
  CheckEnds(started, killed, model);
  world.ExpectNothingLeft();
  if (model.operators != 0) model.Wrong(absl::StrCat(model.operators, " operators are left"));
  return model.problem;
}

Scenario RandomScenario(uint64_t seed) {
  Random random(seed);
  return {seed,
          1 + random.Below(6),
          2 + random.Below(6),
          1 + random.Below(8),
          random.OneIn(2) ? random.Below(6) : 0,
          random.OneIn(3),
          random.OneIn(3)};
}

TEST(RuntimeProperty, EveryTupleArrivesOnceAndEveryRunEnds) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) ASSERT_EQ(Play(RandomScenario(seed)), "") << "seed " << seed;
}

TEST(RuntimeProperty, InScenariosOfRapidcheck) {
  EXPECT_TRUE(rc::check([] {
    Scenario scenario;
    scenario.hosts = *rc::gen::inRange(1u, 7u);
    scenario.nodes = *rc::gen::inRange(2u, 7u);
    scenario.shards = *rc::gen::inRange(1u, 9u);
    scenario.errors = *rc::gen::inRange(0u, 6u);
    scenario.cancel = *rc::gen::arbitrary<bool>();
    scenario.kill = *rc::gen::arbitrary<bool>();
    scenario.seed = *rc::gen::arbitrary<uint64_t>();
    RC_ASSERT(Play(scenario) == "");
  }));
}

}  // namespace
}  // namespace pw::dataflow
