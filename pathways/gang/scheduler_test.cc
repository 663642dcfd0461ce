#include "pathways/gang/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/gang/testing/times.h"
#include "pathways/gang/testing/world.h"

namespace pw::gang {
namespace {

using testing::ElementsAre;

Options With(const std::string& policy, int window_gangs = 1, int64_t window_ns = 0) {
  Options options;
  options.policy = policy;
  options.window_gangs = window_gangs;
  options.window_ns = window_ns;
  return options;
}

TEST(Scheduler, GrantsAtOnceWhatFits) {
  World world(With("fifo", 2));
  const GangId a = world.Submit(1, 1, {{0, {0, 1}}}, kMs);
  const GangId b = world.Submit(1, 1, {{0, {0, 1}}}, kMs);
  const GangId c = world.Submit(1, 1, {{0, {0, 1}}}, kMs);
  EXPECT_THAT(world.grants, ElementsAre(a, b));
  EXPECT_TRUE(world.scheduler->IsWaiting(c));
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(a, b, c));
}

TEST(Scheduler, AWindowCountsPredictedTimeAndLearnsIt) {
  Options options = With("fifo", 1, 10 * kMs);
  options.default_cost_ns = 5 * kMs;
  World world(options);
  for (int i = 0; i < 8; ++i) world.Submit(1, 1, {{0, {0}}}, kMs);
  EXPECT_EQ(world.grants.size(), 2u);  // at the default cost
  world.Step();
  EXPECT_EQ(world.grants.size(), 7u);  // 5 ms are still charged for the second, 1 ms for each of those now known
}

TEST(Scheduler, AFullDeviceDoesNotHoldUpOthers) {
  World world(With("fifo"));
  const GangId a = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId b = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId c = world.Submit(1, 1, {{0, {1}}}, kMs);
  EXPECT_THAT(world.grants, ElementsAre(a, c));
  EXPECT_TRUE(world.scheduler->IsWaiting(b));
}

TEST(Scheduler, NothingOvertakesAGangOnItsDevices) {
  World world(With("fifo"));
  const GangId a = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId both = world.Submit(1, 1, {{0, {0, 1}}}, kMs);
  const GangId c = world.Submit(1, 1, {{0, {1}}}, kMs);
  EXPECT_THAT(world.grants, ElementsAre(a));
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(a, both));
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(a, both, c));
}

TEST(Scheduler, AConsumerIsGrantedOnceItsProducerIsAndNotBefore) {
  World world(With("fifo", 1));
  const GangId a = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId b = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId of_b = world.Submit(1, 1, {{1, {10}}}, kMs, {b});
  const GangId of_a = world.Submit(1, 1, {{1, {11}}}, kMs, {a});
  EXPECT_THAT(world.grants, ElementsAre(a, of_a));  // a has been granted, and need not have run
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(a, of_a, b, of_b));
}

TEST(Scheduler, WhereThePolicyIsIndifferentCompleteInputsGoFirst) {
  World world(With("share", 1));
  const GangId slow = world.Submit(1, 1, {{1, {10}}}, 100 * kMs);
  const GangId first = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId waits = world.Submit(1, 1, {{0, {0}}}, kMs, {slow});
  const GangId ready = world.Submit(1, 1, {{0, {0}}}, kMs);
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(slow, first, ready));
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(slow, first, ready, waits));
}

TEST(Scheduler, AGangOverIslandsIsGrantedInAllOrNone) {
  World world(With("fifo"));
  const GangId a = world.Submit(1, 1, {{0, {0}}}, 3 * kMs);
  const GangId b = world.Submit(1, 2, {{1, {10}}}, kMs);
  const GangId both = world.Submit(1, 3, {{1, {10}}, {0, {0}}}, kMs);
  const GangId after0 = world.Submit(1, 4, {{0, {0}}}, kMs);
  const GangId after1 = world.Submit(1, 4, {{1, {10}}}, kMs);
  EXPECT_THAT(world.grants, ElementsAre(a, b));
  world.Step();  // ends b: `both` is not first in island 0 yet, so island 1 does not know it
  EXPECT_THAT(world.grants, ElementsAre(a, b, after1));
  while (world.Step()) {
  }
  EXPECT_THAT(world.launches[0], ElementsAre(a, both, after0));
  EXPECT_THAT(world.launches[10], ElementsAre(b, after1, both));
}

TEST(Scheduler, CancelTakesBackWhatIsNotGranted) {
  World world(With("fifo", 1));
  const GangId a = world.Submit(1, 1, {{0, {0}}}, kMs);
  for (int i = 0; i < 100; ++i) world.Submit(1, 1, {{0, {0}}}, kMs, {a});
  const GangId other = world.Submit(2, 1, {{0, {0}}}, kMs);
  world.Cancel(1);
  EXPECT_EQ(world.scheduler->gangs(), 2u);
  EXPECT_EQ(world.scheduler->clients().size(), 2u);  // a still runs
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(a, other));
  EXPECT_EQ(world.scheduler->clients().size(), 1u);
}

TEST(Scheduler, ALostDeviceFailsItsGangsAndReleasesTheOthers) {
  World world(With("fifo", 1));
  const GangId a = world.Submit(1, 1, {{0, {0, 1}}}, kMs);
  const GangId b = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId c = world.Submit(1, 1, {{0, {1}}}, kMs);
  const GangId d = world.Submit(1, 1, {{0, {2}}}, kMs, {c});
  world.Lose({1});
  EXPECT_THAT(world.grants, ElementsAre(a, b, d));
  EXPECT_EQ(world.runs.at(a).state, World::State::kGone);
  EXPECT_EQ(world.runs.at(c).state, World::State::kGone);
  const GangId e = world.Submit(1, 1, {{0, {1}}}, kMs);
  EXPECT_FALSE(world.scheduler->IsWaiting(e));
}

TEST(Scheduler, AFailedGangFreesItsConsumersAndCostsNothing) {
  World world(With("share", 1));
  const GangId a = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId b = world.Submit(1, 1, {{0, {0}}}, kMs, {a});
  world.scheduler->OnDone(a, std::nullopt, world.now);
  EXPECT_THAT(world.scheduler->TakeGrants(), ElementsAre(b));
  EXPECT_EQ(world.scheduler->clients().at(ClientId(1)).device_ns, 0);
}

TEST(Scheduler, WhatIsExpectedFromOutsideHoldsUpItsConsumersAlone) {
  World world(With("fifo", 1));
  const GangId upload = world.scheduler->Expect();
  world.runs[upload].state = World::State::kDone;  // the world does not run it
  const GangId a = world.Submit(1, 1, {{0, {0}}}, kMs, {upload});
  const GangId b = world.Submit(2, 1, {{0, {0}}}, kMs);
  EXPECT_THAT(world.grants, ElementsAre(b));
  world.scheduler->OnDone(upload, std::nullopt, world.now);
  world.Step();
  EXPECT_THAT(world.grants, ElementsAre(b, a));
}

TEST(Scheduler, OneClientAloneHasTwoLongGangsGrantedAndOneOfSeveralAsItsDeviceIsAlmostFree) {
  Options options;
  options.lead_ns = 3 * kMs;
  options.default_cost_ns = 20 * kMs;
  World world(options);
  world.Submit(1, 1, {{0, {0}}}, 20 * kMs);
  const GangId second = world.Submit(1, 1, {{0, {0}}}, 20 * kMs);
  EXPECT_FALSE(world.scheduler->IsWaiting(second));
  while (world.Step()) {
  }
  world.Submit(2, 2, {{0, {1}}}, 20 * kMs);  // another device of the island
  world.Submit(1, 1, {{0, {0}}}, 20 * kMs);
  const GangId later = world.Submit(1, 1, {{0, {0}}}, 20 * kMs);
  EXPECT_TRUE(world.scheduler->IsWaiting(later));
  EXPECT_EQ(world.scheduler->WakeAt(), world.now + 17 * kMs);
  world.Cancel(2);
  while (world.Step()) {
  }
  EXPECT_EQ(world.scheduler->WakeAt(), IslandScheduler::kNever);
}

TEST(Scheduler, APriorityChangeReordersWhatWaits) {
  World world(With("priority", 1));
  const GangId a = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId b = world.Submit(1, 1, {{0, {0}}}, kMs);
  const GangId c = world.Submit(2, 1, {{0, {0}}}, kMs);
  world.SetShare(2, {.priority = 1});
  while (world.Step()) {
  }
  EXPECT_THAT(world.grants, ElementsAre(a, c, b));
}

TEST(Scheduler, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_FALSE(Scheduler::Create(With("lottery")).ok());
  EXPECT_FALSE(Scheduler::Create(With("fifo", 0)).ok());
}

}  // namespace
}  // namespace pw::gang
