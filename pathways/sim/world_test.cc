#include "pathways/sim/world.h"

#include <gtest/gtest.h>

#include <vector>

#include "pathways/sim/process.h"
#include "pathways/sim/testing.h"

namespace pw::sim {
namespace {

TEST(World, RunsEventsInTheOrderOfTheirTimesAndThenOfTheirMaking) {
  World world(1);
  std::vector<int> order;
  world.After(absl::Milliseconds(2), [&] { order.push_back(3); });
  world.After(absl::Milliseconds(1), [&] { order.push_back(1); });
  world.After(absl::Milliseconds(1), [&] { order.push_back(2); });
  EXPECT_FALSE(world.RunUntil(world.now() + absl::Seconds(1), Never));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(world.elapsed(), absl::Seconds(1));
}

TEST(World, StopsWhenItIsTold) {
  World world(1);
  int ran = 0;
  for (int i = 1; i <= 5; ++i) world.After(absl::Milliseconds(i), [&] { ++ran; });
  EXPECT_TRUE(world.RunUntil(world.now() + absl::Seconds(1), [&] { return ran == 3; }));
  EXPECT_EQ(world.elapsed(), absl::Milliseconds(3));
}

TEST(World, AnEventThatIsLateRunsNow) {
  World world(1);
  world.RunUntil(world.now() + absl::Seconds(1), Never);
  bool ran = false;
  world.At(world.now() - absl::Seconds(1), [&] { ran = true; });
  world.RunUntil(world.now(), Never);
  EXPECT_TRUE(ran);
  EXPECT_EQ(world.elapsed(), absl::Seconds(1));
}

TEST(World, TheSameSeedDrawsTheSame) {
  World a(7), b(7), c(8);
  std::vector<uint64_t> from_a, from_b, from_c;
  for (int i = 0; i < 10; ++i) {
    from_a.push_back(a.Below(1000));
    from_b.push_back(b.Below(1000));
    from_c.push_back(c.Below(1000));
  }
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
}

TEST(World, TheHashTellsTimesAndValuesApart) {
  World a(1), b(1), c(1);
  a.Mix("x");
  b.Mix("y");
  EXPECT_NE(a.hash(), b.hash());
  c.RunUntil(c.now() + absl::Nanoseconds(1), Never);
  c.Mix("x");
  EXPECT_NE(a.hash(), c.hash());
}

TEST(Process, RunsOneTaskAfterAnotherAndTakesItsTime) {
  World world(1);
  Process process(&world, "p", "", absl::Microseconds(10));
  std::vector<absl::Duration> times;
  for (int i = 0; i < 3; ++i) process.Post([&] { times.push_back(world.elapsed()); });
  world.RunUntil(world.now() + absl::Seconds(1), Never);
  EXPECT_EQ(times, (std::vector<absl::Duration>{absl::ZeroDuration(), absl::Microseconds(10), absl::Microseconds(20)}));
}

TEST(Process, AStoppedOneGoesOnWhereItWasAndADeadOneDoesNot) {
  World world(1);
  Process process(&world, "p", "", absl::Microseconds(1));
  int ran = 0;
  process.Stop();
  process.Post([&] { ++ran; });
  process.After(absl::Milliseconds(1), &process, [&] { ++ran; });
  world.RunUntil(world.now() + absl::Seconds(1), Never);
  EXPECT_EQ(ran, 0);
  process.Continue();
  world.RunUntil(world.now() + absl::Seconds(1), Never);
  EXPECT_EQ(ran, 2);
  process.Post([&] { ++ran; });
  process.Kill();
  process.Post([&] { ++ran; });
  world.RunUntil(world.now() + absl::Seconds(1), Never);
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace pw::sim
