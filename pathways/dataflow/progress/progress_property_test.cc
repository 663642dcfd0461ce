// Compares EdgeProgress with a model that knows every message. Shards of random graphs on a few hosts send and end at random
// moments, over a network that reorders and duplicates messages and reports. Planted bugs prove that the model detects errors.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/progress/edge_progress.h"
#include "pathways/dataflow/testing/random_graphs.h"
#include "rapidcheck.h"

namespace pw::dataflow {
namespace {

enum class Bug { kNone, kDuplicatesCount, kDoneTooSoon, kForgetsToCount, kLosesReports, kIgnoresPoison };

struct Scenario {
  uint64_t seed = 0;
  uint32_t hosts = 1;
  uint32_t nodes = 2;
  uint32_t shards = 1;
  uint32_t duplicates = 0;  // a delivery is repeated with a probability of duplicates / 8
  uint32_t errors = 0;      // a shard ends with an error with a probability of errors / 16
  ProgressKnobs knobs;
};

class World {
 public:
  World(const Scenario& scenario, Bug bug) : scenario_(scenario), bug_(bug), random_(scenario.seed) {
    graph_ = RandomGraph(random_, scenario.hosts, scenario.nodes, scenario.shards);
    const uint32_t edges = static_cast<uint32_t>(graph_->edges().size());
    sent_.resize(edges);
    received_.resize(edges);
    open_sources_.resize(edges);
    reports_.resize(edges);
    for (uint32_t e = 0; e < edges; ++e) MakeEdge(EdgeId(e));
    for (uint32_t n = 0; n < graph_->nodes().size(); ++n) {
      for (uint32_t s = 0; s < graph_->nodes()[n].placement->num_shards(); ++s) {
        missing_inputs_[{n, s}] = graph_->inputs(NodeId(n)).size();
        if (graph_->inputs(NodeId(n)).empty()) active_.push_back({n, s});
      }
    }
  }

  // Returns what is wrong; empty if nothing is.
  std::string Run() {
    while (problem_.empty() && (!active_.empty() || !network_.empty())) {
      if (!active_.empty() && (network_.empty() || random_.OneIn(3))) {
        Act(random_.Below(static_cast<uint32_t>(active_.size())));
      } else {
        DeliverOne();
      }
    }
    if (problem_.empty()) CheckEnd();
    return problem_;
  }

 private:
  using ShardKey = std::pair<uint32_t, uint32_t>;  // node, shard
  struct Item {
    EdgeId edge;
    HostId from, to;
    bool is_report = false;
    Report report;
    uint64_t sequence = 0;
    uint32_t destination = 0;
    uint64_t id = 0;
    bool again = false;  // a duplicate
  };

  void MakeEdge(EdgeId e) {
    const Edge& edge = graph_->edge(e);
    const Placement &from = graph_->source(e), &to = graph_->destination(e);
    open_sources_[e.v] = from.num_shards();
    for (uint32_t h = 0; h < scenario_.hosts; ++h) {
      auto plan = std::make_unique<EdgePlan>(edge.kind, from, to, HostId(h), scenario_.knobs);
      if (plan->idle()) continue;
      parts_[{e.v, h}] = {std::move(plan), nullptr};
      auto& part = parts_[{e.v, h}];
      part.second = std::make_unique<EdgeProgress>(part.first.get());
    }
  }

  EdgeProgress& Part(EdgeId e, HostId h) { return *parts_.at({e.v, h.v}).second; }

  void Act(uint32_t which) {
    const auto [node, shard] = active_[which];
    const std::vector<EdgeId>& outputs = graph_->outputs(NodeId(node));
    if (!outputs.empty() && !random_.OneIn(4))
      return SendFrom(outputs[random_.Below(static_cast<uint32_t>(outputs.size()))], shard);
    active_[which] = active_.back();
    active_.pop_back();
    absl::Status status;
    if (random_.Below(16) < scenario_.errors) status = absl::AbortedError(absl::StrCat("shard ", shard, " of node ", node));
    for (EdgeId e : outputs) Model(e, shard, status);
    Finish(outputs, shard, bug_ == Bug::kIgnoresPoison ? absl::OkStatus() : status);
    // Planted bug: one more message after the end.
    if (bug_ == Bug::kDoneTooSoon && !outputs.empty() && random_.OneIn(2)) SendFrom(outputs[0], shard);
  }

  void Finish(const std::vector<EdgeId>& outputs, uint32_t shard, const absl::Status& status) {
    for (EdgeId e : outputs) {
      const HostId host = graph_->source(e).HostOf(shard);
      EdgeProgress::Effects effects;
      Part(e, host).SourceDone(shard, status, &effects);
      Apply(e, host, effects);
    }
  }

  void Model(EdgeId e, uint32_t shard, const absl::Status& status) {
    --open_sources_[e.v];
    ended_.insert({e.v, shard});
    if (!status.ok()) failed_[e.v].emplace(shard, status);
  }

  void SendFrom(EdgeId e, uint32_t shard) {
    const Edge& edge = graph_->edge(e);
    const uint32_t destination = edge.kind == EdgeKind::kOneToOne ? shard : random_.Below(graph_->destination(e).num_shards());
    const HostId from = graph_->source(e).HostOf(shard), to = graph_->destination(e).HostOf(destination);
    uint64_t sequence;
    if (bug_ == Bug::kForgetsToCount && random_.OneIn(8)) {
      sequence = 1000 + next_id_;
    } else {
      sequence = Part(e, from).Sent(destination);
    }
    Item item{e, from, to, false, {}, sequence, destination, next_id_++};
    sent_[e.v].insert({destination, item.id});
    network_.push_back(std::move(item));
  }

  // Removes a random item; sometimes a copy stays, to be delivered again.
  void DeliverOne() {
    const uint32_t which = random_.Below(static_cast<uint32_t>(network_.size()));
    Item item = network_[which];
    if (item.from != item.to && random_.Below(8) < scenario_.duplicates) {
      network_[which].again = true;
    } else {
      network_[which] = std::move(network_.back());
      network_.pop_back();
    }
    EdgeProgress::Effects effects;
    EdgeProgress& part = Part(item.edge, item.to);
    if (item.is_report) {
      if (absl::Status status = part.OnReport(item.from, item.report, &effects); !status.ok()) return Wrong(status.ToString());
    } else {
      const uint64_t sequence = bug_ == Bug::kDuplicatesCount && item.again ? 1000000 + next_id_++ : item.sequence;
      const auto fresh = part.Received(item.from, sequence, item.destination, &effects);
      if (!fresh.ok()) return Wrong(fresh.status().ToString());
      if (*fresh && !received_[item.edge.v].insert({item.destination, item.id}).second) return Wrong("delivered twice");
    }
    Apply(item.edge, item.to, effects);
  }

  void Apply(EdgeId e, HostId host, EdgeProgress::Effects& effects) {
    for (auto& [to, report] : effects.reports) {
      if (to == host) return Wrong("a host reports to itself over the network");
      ++reports_[e.v];
      if (bug_ == Bug::kLosesReports && random_.OneIn(4)) continue;
      network_.push_back({e, host, to, true, std::move(report)});
    }
    for (const auto& closed : effects.closed) Close(e, host, closed.shard, closed.status);
  }

  // EG-1: when a shard closes, no message can come any more, and all have come.
  void Close(EdgeId e, HostId host, uint32_t shard, const absl::Status& status) {
    const Edge& edge = graph_->edge(e);
    if (graph_->destination(e).HostOf(shard) != host) return Wrong("closed on another host");
    if (!closed_.insert({e.v, shard}).second) return Wrong("closed twice");
    const bool over = edge.kind == EdgeKind::kOneToOne ? ended_.count({e.v, shard}) > 0 : open_sources_[e.v] == 0;
    if (!over) return Wrong("closed while a source shard could still send");
    auto of_shard = [&](const std::set<std::pair<uint32_t, uint64_t>>& all) {
      return std::vector(all.lower_bound({shard, 0}), all.lower_bound({shard + 1, 0}));
    };
    if (of_shard(sent_[e.v]) != of_shard(received_[e.v])) return Wrong("closed before everything was received");
    const auto& failed = failed_[e.v];
    auto poison = edge.kind == EdgeKind::kOneToOne ? failed.find(shard) : failed.begin();
    if (status != (poison == failed.end() ? absl::OkStatus() : poison->second)) return Wrong("closed with another status");
    if (--missing_inputs_[{edge.to.v, shard}] == 0) active_.push_back({edge.to.v, shard});
  }

  // Checks EG-2 and the number of reports.
  void CheckEnd() {
    for (uint32_t e = 0; e < graph_->edges().size(); ++e) {
      const Placement &from = graph_->source(EdgeId(e)), &to = graph_->destination(EdgeId(e));
      for (uint32_t s = 0; s < to.num_shards(); ++s) {
        if (closed_.count({e, s}) == 0) return Wrong(absl::StrCat("edge ", e, " never closes for shard ", s));
      }
      const uint32_t hosts = from.hosts().size() + to.hosts().size();
      const uint32_t pairs = from.hosts().size() * to.hosts().size();
      if (graph_->edge(EdgeId(e)).kind == EdgeKind::kOneToOne) {
        if (reports_[e] > from.num_shards()) Wrong("more reports than shards");
      } else if (reports_[e] >= hosts && (pairs > scenario_.knobs.direct_pairs || reports_[e] > pairs)) {
        Wrong(absl::StrCat(reports_[e], " reports between ", hosts, " hosts"));
      }
    }
    for (const auto& [key, part] : parts_) {
      if (!part.second->finished()) return Wrong("a part is not finished");
    }
  }

  void Wrong(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }

  const Scenario scenario_;
  const Bug bug_;
  Random random_;
  std::shared_ptr<const Graph> graph_;
  std::map<std::pair<uint32_t, uint32_t>, std::pair<std::unique_ptr<EdgePlan>, std::unique_ptr<EdgeProgress>>> parts_;
  std::vector<ShardKey> active_;  // shards whose inputs have closed
  std::vector<Item> network_;
  std::string problem_;
  uint64_t next_id_ = 1;
  // The model.
  std::map<ShardKey, size_t> missing_inputs_;
  std::vector<std::set<std::pair<uint32_t, uint64_t>>> sent_, received_;  // by edge: (shard, id)
  std::vector<uint32_t> open_sources_;
  std::set<std::pair<uint32_t, uint32_t>> ended_, closed_;  // (edge, shard)
  std::map<uint32_t, std::map<uint32_t, absl::Status>> failed_;
  std::vector<uint32_t> reports_;
};

Scenario RandomScenario(uint64_t seed) {
  Random random(seed);
  Scenario scenario{seed, 1 + random.Below(7), 2 + random.Below(5), 1 + random.Below(9), random.Below(5), random.Below(5)};
  scenario.knobs = {2 + random.Below(3), random.Below(12)};
  return scenario;
}

TEST(ProgressProperty, ClosesEveryShardOnceAndNeverEarly) {
  EXPECT_TRUE(rc::check([] {
    Scenario scenario;
    scenario.hosts = *rc::gen::inRange(1u, 9u);
    scenario.nodes = *rc::gen::inRange(2u, 8u);
    scenario.shards = *rc::gen::inRange(1u, 12u);
    scenario.duplicates = *rc::gen::inRange(0u, 5u);
    scenario.errors = *rc::gen::inRange(0u, 8u);
    scenario.knobs.fan_in = *rc::gen::inRange(2u, 6u);
    scenario.knobs.direct_pairs = *rc::gen::inRange(0u, 20u);
    scenario.seed = *rc::gen::arbitrary<uint64_t>();
    RC_ASSERT(World(scenario, Bug::kNone).Run() == "");
  }));
}

TEST(ProgressProperty, HoldsInManySmallWorlds) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) ASSERT_EQ(World(RandomScenario(seed), Bug::kNone).Run(), "") << "seed " << seed;
}

class PlantedBug : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBug, IsNoticed) {
  int noticed = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) noticed += !World(RandomScenario(seed), GetParam()).Run().empty();
  EXPECT_GT(noticed, 20);
}

INSTANTIATE_TEST_SUITE_P(ProgressProperty, PlantedBug,
                         testing::Values(Bug::kDuplicatesCount, Bug::kDoneTooSoon, Bug::kForgetsToCount, Bug::kLosesReports,
                                         Bug::kIgnoresPoison));

}  // namespace
}  // namespace pw::dataflow
