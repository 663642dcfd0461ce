// Compares EdgeProgress with a model that knows every message. Shards of random graphs on a few hosts send and end at random
// moments, over a network that reorders and duplicates messages and reports. In graphs that outlive their hosts, a host may die: the others
// learn it one after another. Planted bugs prove that the model detects errors.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
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

enum class Bug {
  kNone,
  kDuplicatesCount,
  kDoneTooSoon,
  kForgetsToCount,
  kLosesReports,
  kIgnoresPoison,
  kLosesSubstitutes,
  kForgetsTheDead,
  kTheDeadAreWell,
};

struct Scenario {
  uint64_t seed = 0;
  uint32_t hosts = 1;
  uint32_t nodes = 2;
  uint32_t shards = 1;
  uint32_t duplicates = 0;  // a delivery is repeated with a probability of duplicates / 8
  uint32_t errors = 0;      // a shard ends with an error with a probability of errors / 16
  bool kill = false;        // a host dies, if the graph outlives it
  ProgressKnobs knobs;
};

class World {
 public:
  World(const Scenario& scenario, Bug bug) : scenario_(scenario), bug_(bug), random_(scenario.seed) {
    graph_ = RandomGraph(random_, scenario.hosts, scenario.nodes, scenario.shards);
    const uint32_t edges = static_cast<uint32_t>(graph_->edges().size());
    sent_.resize(edges);
    received_.resize(edges);
    reports_.resize(edges);
    for (uint32_t e = 0; e < edges; ++e) MakeEdge(EdgeId(e));
    for (uint32_t n = 0; n < graph_->nodes().size(); ++n) {
      for (uint32_t s = 0; s < graph_->nodes()[n].placement->num_shards(); ++s) {
        missing_inputs_[{n, s}] = graph_->inputs(NodeId(n)).size();
        if (graph_->inputs(NodeId(n)).empty()) active_.push_back({n, s});
      }
    }
  }

  // Returns a violation; empty if there is none.
  std::string Run() {
    while (problem_.empty() && (!active_.empty() || !network_.empty() || !untold_.empty())) {
      if (MayKill() && random_.OneIn(10)) {
        Kill(HostId(random_.Below(scenario_.hosts)));
      } else if (!untold_.empty() && (random_.OneIn(8) || (active_.empty() && network_.empty()))) {
        Tell(random_.Below(static_cast<uint32_t>(untold_.size())));
      } else if (!active_.empty() && (network_.empty() || random_.OneIn(3))) {
        Act(random_.Below(static_cast<uint32_t>(active_.size())));
      } else {
        DeliverOne();
      }
    }
    if (problem_.empty()) CheckEnd();
    return problem_;
  }

 private:
  using ShardKey = std::pair<uint32_t, uint32_t>;         // node, shard
  using Pair = std::tuple<uint32_t, uint32_t, uint32_t>;  // edge, source shard, destination shard
  struct Item {
    EdgeId edge;
    HostId from, to;
    bool is_report = false;
    Report report;
    uint64_t sequence = 0;
    uint32_t source = 0;
    uint32_t destination = 0;
    uint64_t id = 0;
    absl::Status error{};  // of a substitute
    bool again = false;    // a duplicate
  };

  bool Outlives() const { return graph_->host_loss() == HostLoss::kFailsShards; }
  bool MayKill() const { return scenario_.kill && Outlives() && !dead_.has_value(); }
  bool KnowsDead(HostId host) const {
    return dead_.has_value() && host != *dead_ && std::count(untold_.begin(), untold_.end(), host) == 0;
  }

  void Kill(HostId host) {
    dead_ = host;
    std::erase_if(active_, [&](ShardKey key) { return graph_->nodes()[key.first].placement->HostOf(key.second) == host; });
    for (uint32_t h = 0; h < scenario_.hosts; ++h) {
      if (HostId(h) != host) untold_.push_back(HostId(h));
    }
  }

  void Tell(uint32_t which) {
    const HostId host = untold_[which];
    untold_.erase(untold_.begin() + which);
    for (uint32_t e = 0; e < graph_->edges().size(); ++e) {
      if (parts_.count({e, host.v}) == 0) continue;
      for (uint32_t shard : graph_->destination(EdgeId(e)).ShardsOf(host)) ModelLoss(e, host, shard);
      if (bug_ == Bug::kForgetsTheDead) continue;
      EdgeProgress::Effects effects;
      Part(EdgeId(e), host).LoseHost(*dead_, bug_ == Bug::kTheDeadAreWell ? absl::OkStatus() : Lost(), &effects);
      Apply(EdgeId(e), host, effects);
    }
  }

  absl::Status Lost() const { return absl::UnavailableError(absl::StrCat("lost ", ToString(*dead_))); }

  // Notes the lowest source shard on the dead host of which the destination shard misses something.
  void ModelLoss(uint32_t e, HostId host, uint32_t shard) {
    const Edge& edge = graph_->edges()[e];
    const std::vector<uint32_t> there = graph_->source(EdgeId(e)).ShardsOf(*dead_);
    const bool reported = got_reports_.count({e, dead_->v, host.v}) > 0;
    for (uint32_t source : there) {
      if (edge.kind == EdgeKind::kOneToOne && source != shard) continue;
      bool misses = edge.single ? got_pairs_.count({e, source, shard}) == 0 : !reported;
      for (const auto& [destination, id] : sent_[e]) {
        if (destination != shard || edge.single || sender_.at(id) != *dead_) continue;
        misses = misses || received_[e].count({destination, id}) == 0;
      }
      if (misses) lost_.try_emplace({e, shard}, source);
    }
  }

  void MakeEdge(EdgeId e) {
    const Edge& edge = graph_->edge(e);
    const Placement &from = graph_->source(e), &to = graph_->destination(e);
    for (uint32_t h = 0; h < scenario_.hosts; ++h) {
      auto plan = std::make_unique<EdgePlan>(EdgeRules{edge.kind, edge.single, Outlives()}, from, to, HostId(h), scenario_.knobs);
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
    if (status.ok()) SendTheRest(outputs, shard);
    for (EdgeId e : outputs) Model(e, shard, status);
    Finish(outputs, shard, bug_ == Bug::kIgnoresPoison ? absl::OkStatus() : status);
    // Planted bug: one more message after the end.
    if (bug_ == Bug::kDoneTooSoon && !outputs.empty() && random_.OneIn(2)) SendFrom(outputs[0], shard);
  }

  bool Leads(EdgeId e, uint32_t source, uint32_t destination) const {
    return graph_->edge(e).kind != EdgeKind::kOneToOne || source == destination;
  }

  void SendTheRest(const std::vector<EdgeId>& outputs, uint32_t shard) {
    for (EdgeId e : outputs) {
      for (uint32_t to = 0; graph_->edge(e).single && to < graph_->destination(e).num_shards(); ++to) {
        if (Leads(e, shard, to)) SendTo(e, shard, to);
      }
    }
  }

  void Finish(const std::vector<EdgeId>& outputs, uint32_t shard, const absl::Status& status) {
    for (EdgeId e : outputs) {
      const HostId host = graph_->source(e).HostOf(shard);
      EdgeProgress::Effects effects;
      if (status.ok() && !Part(e, host).HasSentAll(shard)) return Wrong("a shard ends well without its messages");
      ending_ = shard;
      Part(e, host).SourceDone(shard, status, &effects);
      Apply(e, host, effects);
    }
  }

  void Model(EdgeId e, uint32_t shard, const absl::Status& status) {
    ended_.insert({e.v, shard});
    if (!status.ok()) failed_[{e.v, shard}] = status;
  }

  void SendFrom(EdgeId e, uint32_t shard) {
    const bool one_to_one = graph_->edge(e).kind == EdgeKind::kOneToOne;
    SendTo(e, shard, one_to_one ? shard : random_.Below(graph_->destination(e).num_shards()));
  }

  // Sends nothing where a single edge has had its message.
  void SendTo(EdgeId e, uint32_t shard, uint32_t destination) {
    const HostId from = graph_->source(e).HostOf(shard);
    if (graph_->edge(e).single && !pairs_.insert({e.v, shard, destination}).second) return;
    if (!Part(e, from).MaySend(shard, destination)) return Wrong("a message is refused");
    uint64_t sequence;
    if (bug_ == Bug::kForgetsToCount && random_.OneIn(8)) {
      sequence = 1000 + next_id_;
    } else {
      sequence = Part(e, from).Sent(shard, destination);
    }
    Send({e, from, {}, false, {}, sequence, shard, destination});
  }

  void Send(Item item) {
    item.to = graph_->destination(item.edge).HostOf(item.destination);
    item.id = next_id_++;
    sender_[item.id] = item.from;
    sent_[item.edge.v].insert({item.destination, item.id});
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
    // Of a dead host's messages, some still arrive where its death is not known yet.
    if (dead_ == item.to || (dead_ == item.from && (KnowsDead(item.to) || random_.OneIn(3)))) return;
    EdgeProgress::Effects effects;
    EdgeProgress& part = Part(item.edge, item.to);
    if (item.is_report) {
      got_reports_.insert({item.edge.v, item.from.v, item.to.v});
      if (absl::Status status = part.OnReport(item.from, item.report, &effects); !status.ok()) return Wrong(status.ToString());
    } else {
      const uint64_t sequence = bug_ == Bug::kDuplicatesCount && item.again ? 1000000 + next_id_++ : item.sequence;
      if (graph_->edge(item.edge).single) got_pairs_[{item.edge.v, item.source, item.destination}] = item.error;
      const auto fresh = part.Received(item.from, sequence, item.destination, item.error, &effects);
      if (!fresh.ok()) return Wrong(fresh.status().ToString());
      if (*fresh && !received_[item.edge.v].insert({item.destination, item.id}).second) return Wrong("delivered twice");
    }
    Apply(item.edge, item.to, effects);
  }

  void Apply(EdgeId e, HostId host, EdgeProgress::Effects& effects) {
    for (const auto& [destination, sequence, error] : effects.substitutes) {
      if (bug_ == Bug::kLosesSubstitutes) continue;
      const uint32_t source = ending_;
      if (!pairs_.insert({e.v, source, destination}).second) return Wrong("a substitute for a message that was sent");
      Send({e, host, {}, false, {}, sequence, source, destination, 0, error});
    }
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
    for (uint32_t source = 0; source < graph_->source(e).num_shards(); ++source) {
      if (Leads(e, source, shard) && MayStillSend(e, source, shard)) return Wrong("closed while a source shard could still send");
    }
    for (auto it = sent_[e.v].lower_bound({shard, 0}); it != sent_[e.v].end() && it->first == shard; ++it) {
      const bool lost = dead_ == sender_.at(it->second) && lost_.count({e.v, shard}) > 0;
      if (!lost && received_[e.v].count(*it) == 0) return Wrong("closed before everything was received");
    }
    if (status != Expected(e, host, shard)) return Wrong(absl::StrCat("closed with ", status.ToString()));
    if (--missing_inputs_[{edge.to.v, shard}] == 0) active_.push_back({edge.to.v, shard});
  }

  bool MayStillSend(EdgeId e, uint32_t source, uint32_t shard) const {
    const HostId from = graph_->source(e).HostOf(source), host = graph_->destination(e).HostOf(shard);
    if (dead_ == from && KnowsDead(host)) return false;
    return graph_->edge(e).single ? got_pairs_.count({e.v, source, shard}) == 0 : ended_.count({e.v, source}) == 0;
  }

  // Returns the error of the lowest source shard that the destination shard has heard of.
  absl::Status Expected(EdgeId e, HostId host, uint32_t shard) const {
    std::map<uint32_t, absl::Status> errors;
    if (auto it = lost_.find({e.v, shard}); it != lost_.end()) errors.emplace(it->second, Lost());
    for (uint32_t source = 0; source < graph_->source(e).num_shards(); ++source) {
      if (!Leads(e, source, shard)) continue;
      if (auto got = got_pairs_.find({e.v, source, shard}); got != got_pairs_.end() && !got->second.ok())
        errors.emplace(source, got->second);
      auto failed = failed_.find({e.v, source});
      if (graph_->edge(e).single || failed == failed_.end()) continue;
      const HostId from = graph_->source(e).HostOf(source);
      if (dead_ != from || got_reports_.count({e.v, from.v, host.v}) > 0) errors.emplace(source, failed->second);
    }
    return errors.empty() ? absl::OkStatus() : errors.begin()->second;
  }

  // Checks EG-2 and the number of reports.
  void CheckEnd() {
    for (uint32_t e = 0; e < graph_->edges().size(); ++e) {
      const Edge& edge = graph_->edges()[e];
      const Placement &from = graph_->source(EdgeId(e)), &to = graph_->destination(EdgeId(e));
      for (uint32_t s = 0; s < to.num_shards(); ++s) {
        if (closed_.count({e, s}) == 0 && dead_ != to.HostOf(s))
          return Wrong(absl::StrCat("edge ", e, " never closes for shard ", s));
      }
      const uint32_t hosts = from.hosts().size() + to.hosts().size();
      const uint32_t pairs = from.hosts().size() * to.hosts().size();
      if (edge.single && reports_[e] > 0) return Wrong("a single edge has reports");
      if (edge.kind == EdgeKind::kOneToOne) {
        if (reports_[e] > from.num_shards()) Wrong("more reports than shards");
      } else if (reports_[e] >= hosts && ((pairs > scenario_.knobs.direct_pairs && !Outlives()) || reports_[e] > pairs)) {
        Wrong(absl::StrCat(reports_[e], " reports between ", hosts, " hosts"));
      }
    }
    for (const auto& [key, part] : parts_) {
      if (dead_ != HostId(key.second) && !part.second->finished()) return Wrong("a part is not finished");
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
  std::map<uint64_t, HostId> sender_;                                     // by id
  std::set<std::pair<uint32_t, uint32_t>> ended_, closed_;                // (edge, shard)
  std::map<std::pair<uint32_t, uint32_t>, absl::Status> failed_;          // (edge, source shard)
  std::set<Pair> pairs_;                                                  // sent on single edges
  std::map<Pair, absl::Status> got_pairs_;                                // and received
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> got_reports_;        // edge, from, to
  std::vector<uint32_t> reports_;
  std::optional<HostId> dead_;
  std::vector<HostId> untold_;                              // hosts that do not know it
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> lost_;  // (edge, destination shard): source shard
  uint32_t ending_ = 0;
};

Scenario RandomScenario(uint64_t seed) {
  Random random(seed);
  Scenario scenario{
      seed, 1 + random.Below(7), 2 + random.Below(5), 1 + random.Below(9), random.Below(5), random.Below(5), random.OneIn(2)};
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
    scenario.kill = *rc::gen::arbitrary<bool>();
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
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.kill = scenario.kill || GetParam() == Bug::kForgetsTheDead || GetParam() == Bug::kTheDeadAreWell;
    noticed += !World(scenario, GetParam()).Run().empty();
  }
  EXPECT_GT(noticed, 20);
}

INSTANTIATE_TEST_SUITE_P(ProgressProperty, PlantedBug,
                         testing::Values(Bug::kDuplicatesCount, Bug::kDoneTooSoon, Bug::kForgetsToCount, Bug::kLosesReports,
                                         Bug::kIgnoresPoison, Bug::kLosesSubstitutes, Bug::kForgetsTheDead,
                                         Bug::kTheDeadAreWell));

}  // namespace
}  // namespace pw::dataflow
