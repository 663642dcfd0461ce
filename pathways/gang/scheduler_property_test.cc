// Checks the scheduler's invariants under random programs, delays, cancellations, failures and changes of weights.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/gang/testing/times.h"
#include "pathways/gang/testing/world.h"
#include "rapidcheck/gtest.h"  // after gtest.h, which it needs

namespace pw::gang {
namespace {

constexpr int kIslands = 3;
constexpr int kDevicesEach = 5;  // per island

// A generator for all choices but the seed and the number of events, which rapidcheck picks; it is far cheaper.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  // In [low, high).
  int64_t In(int64_t low, int64_t high) {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return low + static_cast<int64_t>((z ^ (z >> 31)) % static_cast<uint64_t>(high - low));
  }

 private:
  uint64_t state_;
};

Options RandomOptions(Dice& dice) {
  Options options;
  options.policy = PolicyNames()[dice.In(0, 3)];
  options.window_gangs = static_cast<int>(dice.In(1, 4));
  options.window_ns = dice.In(0, 3000) * kUs;
  options.lead_ns = dice.In(0, 3000) * kUs;
  options.default_cost_ns = dice.In(0, 2000) * kUs;
  options.aging_ns = 5'000 * kUs;
  return options;
}

std::vector<World::Part> RandomParts(Dice& dice) {
  std::vector<World::Part> parts;
  const int64_t dots = dice.In(0, 8), spread = dots < 5 ? 1 : dots < 7 ? 2 : 3;
  std::set<int> islands;
  while (static_cast<int64_t>(islands.size()) < spread) islands.insert(static_cast<int>(dice.In(0, kIslands)));
  for (int island : islands) {
    const int64_t bits = dice.In(0, 3) == 0 ? (1 << kDevicesEach) - 1 : dice.In(1, 1 << kDevicesEach);
    World::Part part{static_cast<uint32_t>(island), {}};
    for (int d = 0; d < kDevicesEach; ++d) {
      if ((bits >> d & 1) != 0) part.devices.push_back(100 * island + d);
    }
    parts.push_back(part);
  }
  return parts;
}

// Any two devices launch the gangs that they share in the same order, so there is one order for all.
void CheckOrders(const World& world) {
  std::map<GangId, size_t> place;
  for (size_t i = 0; i < world.grants.size(); ++i) place[world.grants[i]] = i;
  for (const auto& [device, launched] : world.launches) {
    for (size_t i = 1; i < launched.size(); ++i) RC_ASSERT(place.at(launched[i - 1]) < place.at(launched[i]));
  }
}

void CheckBooks(const World& world) {
  size_t open = 0;
  std::map<uint64_t, std::pair<int64_t, int64_t>> counted;
  for (const auto& [id, run] : world.runs) {
    if (run.ended()) continue;
    ++open;
    ++(run.state == World::State::kWaiting ? counted[run.client].first : counted[run.client].second);
  }
  RC_ASSERT(world.scheduler->gangs() == open);
  for (const auto& [client, stats] : world.scheduler->clients()) {
    RC_ASSERT(stats.waiting == counted[client.v].first);
    RC_ASSERT(stats.granted == counted[client.v].second);
  }
}

uint64_t Client(Dice& dice) { return static_cast<uint64_t>(dice.In(1, 5)); }

void Submit(World& world, Dice& dice) {
  std::vector<GangId> producers;
  const int64_t wanted = dice.In(0, 3);
  for (int i = 0; i < wanted && !world.runs.empty(); ++i) {
    auto it = world.runs.begin();
    const int64_t runs = static_cast<int64_t>(world.runs.size());
    std::advance(it, dice.In(std::max<int64_t>(0, runs - 12), runs));
    producers.push_back(it->first);
  }
  const uint64_t executable = static_cast<uint64_t>(dice.In(1, 6));
  world.Submit(Client(dice), executable, RandomParts(dice), dice.In(0, 3000) * kUs, producers);
}

// One random event.
void Act(World& world, Dice& dice, std::set<int>& lost) {
  const int64_t dots = dice.In(0, 24);
  switch (dots < 12 ? 0 : dots < 20 ? 1 : dots < 21 ? 2 : dots < 22 ? 3 : 4) {
    case 0:
      return Submit(world, dice);
    case 1:
      world.Step();
      return;
    case 2:
      return world.Cancel(Client(dice));
    case 3: {
      if (lost.size() > 4) return;
      const int island = static_cast<int>(dice.In(0, kIslands)), device = static_cast<int>(dice.In(0, kDevicesEach));
      lost.insert(100 * island + device);
      return world.Lose({100 * island + device});
    }
    default:
      world.SetShare(Client(dice), {0.5 * static_cast<double>(dice.In(1, 9)), static_cast<int>(dice.In(-3, 4))});
  }
}

RC_GTEST_PROP(SchedulerProperty, OneOrderForAllDevicesAndEverythingEnds, ()) {
  Dice dice(*rc::gen::arbitrary<uint64_t>());
  World world(RandomOptions(dice));
  std::set<int> lost;
  const int actions = *rc::gen::inRange(1, 300);
  for (int i = 0; i < actions; ++i) {
    Act(world, dice, lost);
    CheckBooks(world);
  }
  while (world.Step()) {
  }
  CheckOrders(world);
  CheckBooks(world);
  for (const auto& [id, run] : world.runs) RC_ASSERT(run.ended());  // nothing waits for ever
  RC_ASSERT(!::testing::Test::HasFailure());
}

RC_GTEST_PROP(SchedulerProperty, WindowsAreKept, ()) {
  Dice dice(*rc::gen::arbitrary<uint64_t>());
  Options options = RandomOptions(dice);
  options.default_cost_ns = 1000 * kUs;
  World world(options);
  const int actions = *rc::gen::inRange(1, 200);
  for (int i = 0; i < actions; ++i) {
    if (dice.In(0, 3) > 0) {
      // Gangs always take as long as predicted, so that the test can compute the windows.
      world.Submit(Client(dice), 1, {{0, {0, static_cast<int>(dice.In(1, 3))}}}, 1000 * kUs);
    } else {
      world.Step();
    }
    int open = 0;
    for (GangId id : world.launches[0]) open += world.runs.at(id).ended() ? 0 : 1;
    RC_ASSERT(open <= std::max<int64_t>(options.window_gangs, options.window_ns / (1000 * kUs)));
    // Work-conserving: every gang uses device 0, which is never idle while a gang waits.
    if (open == 0) RC_ASSERT(world.scheduler->gangs() == 0u);
  }
}

RC_GTEST_PROP(SchedulerProperty, AgingStarvesNobody, ()) {
  Options options;
  options.policy = "priority";
  options.window_gangs = 1;
  options.window_ns = 0;
  options.aging_ns = 10'000 * kUs;
  World world(options);
  const int priority = *rc::gen::inRange(1, 20);
  world.SetShare(1, {.priority = priority});
  world.Submit(1, 1, {{0, {0}}}, 1000 * kUs);
  const GangId low = world.Submit(2, 1, {{0, {0}}}, 1000 * kUs);
  // An endless flood: two gangs are submitted for each that ends.
  for (int i = 0; i < 1000 && world.scheduler->IsWaiting(low); ++i) {
    world.Submit(1, 1, {{0, {0}}}, 1000 * kUs);
    world.Submit(1, 1, {{0, {0}}}, 1000 * kUs);
    world.Step();
  }
  RC_ASSERT(!world.scheduler->IsWaiting(low));
  // Two gangs are submitted for each that runs; all those submitted within priority * aging go before the low one.
  RC_ASSERT(world.now <= (2 * priority + 2) * options.aging_ns);
  RC_ASSERT(priority <= 2 || world.now >= priority * options.aging_ns / 2);
}

}  // namespace
}  // namespace pw::gang
