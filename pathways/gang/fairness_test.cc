// Tests the shares that ProportionalShare gives over ten simulated seconds, and the cost of a decision.
#include <cmath>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/gang/testing/times.h"
#include "pathways/gang/testing/world.h"

namespace pw::gang {
namespace {

// A closed loop: clients 1, 2, ... always have `depth` gangs submitted, of the given lengths, on the same devices.
class Closed {
 public:
  Closed(World* world, std::vector<int64_t> lengths, int depth) : world_(world), lengths_(std::move(lengths)), depth_(depth) {}
  void Until(int64_t end) {
    for (;;) {
      Refill();
      if (world_->now >= end || !world_->Step()) return;
    }
  }
  void Quiet(uint64_t client, bool quiet) { quiet_[client] = quiet; }

 private:
  void Refill() {
    const auto& stats = world_->scheduler->clients();
    for (size_t c = 0; c < lengths_.size(); ++c) {
      if (quiet_[c + 1]) continue;
      auto it = stats.find(ClientId(c + 1));
      for (int64_t open = it == stats.end() ? 0 : it->second.waiting + it->second.granted; open < depth_; ++open) {
        // Lengths vary around their mean; the cost model can know only the mean.
        const int64_t length = lengths_[c] * (75 + 50 * static_cast<int64_t>(world_->runs.size() % 2)) / 100;
        world_->Submit(c + 1, c + 1, {{0, {0, 1, 2, 3}}}, length);
      }
    }
  }
  World* const world_;
  const std::vector<int64_t> lengths_;
  const int depth_;
  std::map<uint64_t, bool> quiet_;
};

Options ShareOptions() {
  Options options;
  options.policy = "share";
  return options;
}

void ExpectShares(const std::map<uint64_t, int64_t>& got, const std::vector<double>& weights) {
  double sum = 0, total = 0;
  for (double w : weights) sum += w;
  for (const auto& [client, ns] : got) total += static_cast<double>(ns);
  for (size_t c = 0; c < weights.size(); ++c) {
    const double want = weights[c] / sum, have = static_cast<double>(got.at(c + 1)) / total;
    EXPECT_NEAR(have / want, 1, 0.02) << "client " << c + 1;
  }
}

TEST(Fairness, EqualWeightsGetEqualTimeWhateverTheLengthsOfTheirGangs) {
  World world(ShareOptions());
  Closed clients(&world, {500 * kUs, 1 * kMs, 3 * kMs, 7 * kMs}, 40);
  clients.Until(10 * kSecond);
  ExpectShares(world.done_ns, {1, 1, 1, 1});
}

TEST(Fairness, TimeIsInProportionToTheWeights) {
  World world(ShareOptions());
  const std::vector<double> weights = {1, 2, 4, 8};
  for (size_t c = 0; c < 4; ++c) world.SetShare(c + 1, {.weight = weights[c]});
  Closed clients(&world, {3 * kMs, 500 * kUs, 1 * kMs, 2 * kMs}, 40);
  clients.Until(10 * kSecond);
  ExpectShares(world.done_ns, weights);
}

// Returns the longest time that short computations of one client waited for their end, one at a time, beside a trainer's of 20 ms each, which always
// wait. In `idle_ns`: how long the devices stood idle until the trainer's last one began.
int64_t LongestDecode(int64_t lead_ns, const Share& share, int64_t* idle_ns) {
  Options options = ShareOptions();
  options.lead_ns = lead_ns;
  World world(options);
  world.SetShare(2, share);
  const auto submit = [&](uint64_t client, int64_t length) { return world.Submit(client, client, {{0, {0}}}, length); };
  int64_t longest = 0, asked = 0;
  GangId decode;
  for (int run = 0; run < 2000; ++run) {
    while (world.scheduler->clients().empty() || !world.scheduler->clients().contains(ClientId(1)) ||
           world.scheduler->clients().at(ClientId(1)).waiting < 2)
      submit(1, 20 * kMs);
    // It comes at another time of the trainer's computations each time.
    if (decode == GangId() && world.now >= asked) asked = world.now, decode = submit(2, 1 * kMs);
    if (!world.Step()) break;
    if (decode == GangId() || !world.runs.at(decode).ended()) continue;
    if (run > 100) longest = std::max(longest, world.now - asked);
    asked = world.now + (run % 7) * 3 * kMs + 1, decode = GangId();
  }
  *idle_ns = world.now - world.done_ns.at(1) - world.done_ns.at(2);
  return longest;
}

TEST(Fairness, AShortComputationWaitsForTheRestOfALongOneAndNotForTwo) {
  int64_t idle = 0;
  EXPECT_LE(LongestDecode(3 * kMs, {.weight = 8}, &idle), (20 + 3 + 1) * kMs);
  EXPECT_EQ(idle, 0);
  EXPECT_GT(LongestDecode(kSecond, {.weight = 8}, &idle), 40 * kMs) << "if two are always granted ahead";
}

TEST(Fairness, AWeightCanBeChangedOnTheRun) {
  World world(ShareOptions());
  Closed clients(&world, {1 * kMs, 2 * kMs}, 40);
  clients.Until(5 * kSecond);
  ExpectShares(world.done_ns, {1, 1});
  world.SetShare(2, {.weight = 3});
  world.done_ns.clear();
  clients.Until(15 * kSecond);
  ExpectShares(world.done_ns, {1, 3});
}

TEST(Fairness, WhoIsAloneGetsAllAndWhoSleptGetsNoMoreThanItsShare) {
  World world(ShareOptions());
  Closed clients(&world, {1 * kMs, 1 * kMs}, 40);
  clients.Quiet(2, true);
  clients.Until(5 * kSecond);
  EXPECT_GT(world.done_ns[1], 4 * int64_t{4'990} * kMs);  // four devices, nothing lost
  clients.Quiet(2, false);
  world.done_ns.clear();
  clients.Until(6 * kSecond);
  ExpectShares(world.done_ns, {1, 1});
}

// Returns the comparisons per gang, from submission to its end, while each client has `waiting_each` gangs waiting.
double ComparisonsPerGang(int clients, int waiting_each) {
  Options options = ShareOptions();
  options.window_gangs = 1;
  options.window_ns = 0;
  World world(options);
  for (int i = 0; i < waiting_each; ++i) {
    for (int c = 0; c < clients; ++c) world.Submit(c + 1, c + 1, {{0, {0}}}, kMs);
  }
  const uint64_t before = world.scheduler->island(IslandId(0))->comparisons();
  constexpr int kSteps = 200;
  for (int i = 0; i < kSteps; ++i) {
    world.Step();
    world.Submit(i % clients + 1, i % clients + 1, {{0, {0}}}, kMs);
  }
  return static_cast<double>(world.scheduler->island(IslandId(0))->comparisons() - before) / kSteps;
}

TEST(Cost, ADecisionCostsTheLogarithmOfWhatWaits) {
  for (int clients : {1, 16, 256}) {
    for (int waiting : {4, 32}) {
      const double per_gang = ComparisonsPerGang(clients, waiting);
      EXPECT_LT(per_gang, 30 + 14 * (std::log2(clients) + std::log2(waiting))) << clients << " clients, " << waiting << " each";
    }
  }
}

TEST(Cost, ADecisionCostsTheSameForAnyNumberOfDevices) {
  std::map<int, uint64_t> comparisons;
  for (int devices : {8, 2048}) {
    World world(ShareOptions());
    std::vector<int> all(devices);
    for (int d = 0; d < devices; ++d) all[d] = d;
    for (int i = 0; i < 100; ++i) world.Submit(i % 3, 1, {{0, all}}, kMs);
    while (world.Step()) {
    }
    comparisons[devices] = world.scheduler->island(IslandId(0))->comparisons();
  }
  EXPECT_EQ(comparisons[8], comparisons[2048]);
}

}  // namespace
}  // namespace pw::gang
