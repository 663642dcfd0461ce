// Runs random graphs on whole runtimes over memory transports, several runs at a time and in random order, and compares them with
// a model of every tuple. Each tuple arrives once, at the right shard, before its edge closes; every run ends with the right
// status; no run is left. In some worlds runs are cancelled, hosts die, or ways between hosts break, at random moments. Runs of
// graphs that outlive their hosts go on then: each shard on the other hosts ends. Some are orders.
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
  std::map<RunId, std::set<std::pair<uint32_t, uint32_t>>> failed, ended;  // (node, shard)
  std::map<std::pair<RunId, HostId>, std::vector<std::pair<uint32_t, uint32_t>>> begun;
  uint64_t next = 1;
  int operators = 0;  // number that are alive
  std::string problem;

  void Wrong(std::string what) {
    if (problem.empty()) problem = std::move(what);
  }
};

class RandomOperator : public Operator {
 public:
  RandomOperator(Model* model, HostId self) : model_(model), self_(self) { ++model_->operators; }
  ~RandomOperator() override { --model_->operators; }

  void OnStart(Shard& shard) override {
    auto& begun = model_->begun[{shard.ref().run, self_}];
    const std::pair next(shard.ref().node.v, shard.index());
    if (!begun.empty() && next <= begun.back()) model_->Wrong("shards began in another order than that of the nodes");
    begun.push_back(next);
  }
  void OnTuple(Shard& shard, EdgeId edge, Tuple tuple) override {
    if (model_->begun[{shard.ref().run, self_}].size() != ShardsHere(shard.graph()))
      model_->Wrong("a tuple before a shard began");
    const Model::Key key{shard.ref().run, edge, shard.index()};
    if (model_->closed.count(key) > 0) model_->Wrong("a tuple after its edge has closed");
    model_->received[key].insert(std::string(tuple.data.view()));
    SendSome(shard);
  }
  void OnInputClosed(Shard& shard, EdgeId edge, const absl::Status& status) override {
    const Model::Key key{shard.ref().run, edge, shard.index()};
    if (!model_->closed.insert(key).second) model_->Wrong("closed twice");
    const std::multiset<std::string>&sent = model_->sent[key], &received = model_->received[key];
    const bool all = status.ok() || shard.graph().host_loss() == HostLoss::kEndsRuns;
    if (all ? sent != received : !std::includes(sent.begin(), sent.end(), received.begin(), received.end()))
      model_->Wrong("closed before everything came");
  }
  void OnInputsClosed(Shard& shard) override {
    const auto key = End(shard);
    SendSome(shard);
    if (model_->random.Below(32) < model_->errors) {
      model_->failed[shard.ref().run].insert(key);
      return shard.Finish(absl::AbortedError("as planned"));
    }
    for (EdgeId out : shard.outputs()) {
      const bool one_to_one = shard.graph().edge(out).kind == EdgeKind::kOneToOne;
      for (uint32_t to = 0; shard.graph().edge(out).single && to < shard.graph().destination(out).num_shards(); ++to) {
        if (!one_to_one || to == shard.index()) Send(shard, out, to);
      }
    }
    shard.Finish();
  }
  void OnPoisoned(Shard& shard, const absl::Status& error) override {
    End(shard);
    shard.Finish(error);
  }

 private:
  std::pair<uint32_t, uint32_t> End(Shard& shard) {
    const std::pair key(shard.ref().node.v, shard.index());
    if (!model_->ended[shard.ref().run].insert(key).second) model_->Wrong("a shard ended twice");
    return key;
  }
  void Send(Shard& shard, EdgeId out, uint32_t to) {
    const std::string text = absl::StrCat(model_->next++);
    model_->sent[{shard.ref().run, out, to}].insert(text);
    shard.Send(out, to, TupleOf(text));
  }
  void SendSome(Shard& shard) {
    for (EdgeId out : shard.outputs()) {
      if (shard.graph().edge(out).single) continue;  // these get their tuple at the end
      const bool one_to_one = shard.graph().edge(out).kind == EdgeKind::kOneToOne;
      for (uint32_t n = model_->random.Below(3); n > 0; --n) {
        const uint32_t to = one_to_one ? shard.index() : model_->random.Below(shard.graph().destination(out).num_shards());
        Send(shard, out, to);
      }
    }
  }
  size_t ShardsHere(const GraphPart& part) const {
    size_t shards = 0;
    for (const auto& [id, node] : part.nodes()) shards += node.placement->NumShardsOf(self_);
    return shards;
  }

  Model* const model_;
  const HostId self_;
};

struct Scenario {
  uint64_t seed = 1;
  uint32_t hosts = 1;
  uint32_t nodes = 3;
  uint32_t shards = 3;
  uint32_t errors = 0;
  bool cancel = false;
  bool kill = false;
  uint32_t breaks = 0;  // of ways between hosts
};

struct Losses {
  std::optional<uint32_t> killed;
  std::set<std::pair<uint32_t, uint32_t>> broken;  // ways, in both directions
  bool any() const { return killed.has_value() || !broken.empty(); }
};

struct Started {
  std::shared_ptr<const Graph> graph;
  uint32_t coordinator = 0;
  bool cancelled = false;
  std::vector<absl::Status> done;
};

// Returns whether each shard of the run has ended on the hosts that live and have kept their way to the coordinator.
bool AllEnded(const Started& run, const Losses& losses, const std::set<std::pair<uint32_t, uint32_t>>& ended) {
  for (uint32_t n = 0; n < run.graph->nodes().size(); ++n) {
    const Placement& placement = *run.graph->nodes()[n].placement;
    for (uint32_t s = 0; s < placement.num_shards(); ++s) {
      const uint32_t host = placement.HostOf(s).v;
      const bool gone = losses.killed == host || losses.broken.count({run.coordinator, host}) > 0;
      if (!gone && ended.count({n, s}) == 0) return false;
    }
  }
  return true;
}

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

bool FailedOn(const Graph& graph, HostId host, const std::set<std::pair<uint32_t, uint32_t>>& failed) {
  return std::any_of(failed.begin(), failed.end(),
                     [&](auto shard) { return graph.nodes()[shard.first].placement->HostOf(shard.second) == host; });
}

void CheckEnds(const std::map<RunId, Started>& started, const Losses& losses, Model& model) {
  const std::optional<uint32_t> killed = losses.killed;
  for (const auto& [id, run] : started) {
    if (killed == run.coordinator) continue;
    if (run.done.size() != 1) return model.Wrong(absl::StrCat("on_done came ", run.done.size(), " times"));
    const absl::Status& status = run.done[0];
    if (!run.cancelled && run.graph->host_loss() != HostLoss::kEndsRuns && !AllEnded(run, losses, model.ended[id]))
      return model.Wrong("a run did not outlive a host");
    const bool may_be_lost = killed.has_value() && run.graph->hosts().Contains(HostId(*killed));
    if (status.code() == absl::StatusCode::kUnavailable) {
      const bool broke = !losses.broken.empty() && absl::StrContains(status.message(), "broke: cable");
      const bool lost = may_be_lost && absl::StrContains(status.message(), absl::StrCat("host ", *killed));
      if (!broke && !lost) model.Wrong(status.ToString());
    } else if (status.code() == absl::StatusCode::kCancelled) {
      if (!run.cancelled) model.Wrong("cancelled by nobody");
    } else if (run.graph->host_loss() == HostLoss::kConcernsNobody) {
      if (status.ok() == FailedOn(*run.graph, HostId(run.coordinator), model.failed[id])) model.Wrong(status.ToString());
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
  std::set<RunId> with_arguments_of_hosts;
  operators.Add("random", [&](const OperatorContext& context) -> absl::StatusOr<std::unique_ptr<Operator>> {
    const bool own = with_arguments_of_hosts.count(context.run) > 0;
    if (context.argument != (own ? absl::StrCat("for ", context.self.v) : "for all")) model.Wrong("another argument");
    return std::make_unique<RandomOperator>(&model, context.self);
  });
  RuntimeKnobs knobs;
  knobs.progress = {2 + model.random.Below(3), model.random.Below(8)};
  knobs.batching.max_messages = 1 + model.random.Below(8);
  knobs.flow.window_bytes = 64 + model.random.Below(4000);
  RuntimeWorld world(scenario.hosts, scenario.seed, operators, knobs);
  std::map<RunId, Started> started;
  Losses losses;
  const auto break_one = [&] {
    const uint32_t a = model.random.Below(scenario.hosts), b = model.random.Below(scenario.hosts);
    if (a == b) return;
    world.Break(a, b);
    losses.broken.insert({a, b});
    losses.broken.insert({b, a});
  };
  for (int i = 0; i < 4; ++i) {
    const bool orders = model.random.OneIn(8);
    const auto graph = orders ? RandomOrders(model.random, scenario.hosts, scenario.nodes, scenario.shards, "random")
                              : RandomGraph(model.random, scenario.hosts, scenario.nodes, scenario.shards, "random");
    const uint32_t coordinator = model.random.Below(scenario.hosts);
    const GraphId id = *world.at(coordinator).Install(graph);
    for (int k = 0; k < 2; ++k) {
      auto slot = std::make_shared<Started*>(nullptr);
      RunOptions options;
      options.argument = "for all";
      if (k == 1) options.argument_of = [](HostId host) { return absl::StrCat("for ", host.v); };
      options.on_done = [slot](const absl::Status& status) { (*slot)->done.push_back(status); };
      const RunId run = world.at(coordinator).Start(id, std::move(options));
      started[run] = {graph, coordinator, false, {}};
      if (k == 1) with_arguments_of_hosts.insert(run);
      if (scenario.breaks > 0 && model.random.OneIn(4)) break_one();
      *slot = &started[run];
      if (scenario.cancel && k == 1) {
        for (uint32_t steps = model.random.Below(60); steps > 0; --steps) world.RunOne();
        world.at(coordinator).Cancel(run, absl::CancelledError("as planned"));
        started[run].cancelled = true;
      }
    }
    world.at(coordinator).Uninstall(id);
  }
  for (uint32_t b = 0; b < scenario.breaks; ++b) {
    for (uint32_t steps = model.random.Below(200); steps > 0; --steps) world.RunOne();
    if (b > 0) break_one();  // the others break while runs start
  }
  if (scenario.kill && scenario.hosts > 1) {
    for (uint32_t steps = model.random.Below(400); steps > 0; --steps) world.RunOne();
    losses.killed = model.random.Below(scenario.hosts);
    world.Kill(*losses.killed);
    world.TellLost(*losses.killed);
  }
  world.Settle();
  CheckEnds(started, losses, model);
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
          random.OneIn(3),
          random.OneIn(3) ? random.Below(4) : 0};
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
    scenario.breaks = *rc::gen::inRange(0u, 4u);
    scenario.seed = *rc::gen::arbitrary<uint64_t>();
    RC_ASSERT(Play(scenario) == "");
  }));
}

}  // namespace
}  // namespace pw::dataflow
