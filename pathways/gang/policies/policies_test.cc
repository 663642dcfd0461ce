#include "pathways/gang/options.h"
#include "pathways/gang/policies/fifo.h"
#include "pathways/gang/policies/proportional_share.h"
#include "pathways/gang/policies/strict_priority.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/gang/testing/times.h"

namespace pw::gang {
namespace {

TEST(ProportionalShare, ChargesTimeDividedByWeight) {
  ProportionalShare policy;
  policy.SetShare(ClientId(2), {.weight = 4});
  EXPECT_TRUE(policy.OnGrant(ClientId(1), 8 * kMs));
  EXPECT_TRUE(policy.OnGrant(ClientId(2), 8 * kMs));
  EXPECT_EQ(policy.ClientRank(ClientId(1)), 8);
  EXPECT_EQ(policy.ClientRank(ClientId(2)), 2);
  EXPECT_TRUE(policy.OnDone(ClientId(1), 8 * kMs, 3 * kMs));
  EXPECT_EQ(policy.ClientRank(ClientId(1)), 3);
}

TEST(ProportionalShare, WhatWasGrantedUnderAnotherWeightIsCorrectedUnderIt) {
  ProportionalShare policy;
  policy.SetShare(ClientId(1), {.weight = 8});
  policy.OnGrant(ClientId(1), 8 * kMs);
  policy.OnGrant(ClientId(1), 8 * kMs);
  policy.SetShare(ClientId(1), {.weight = 1});
  EXPECT_EQ(policy.ClientRank(ClientId(1)), 2);
  policy.OnDone(ClientId(1), 8 * kMs, 24 * kMs);  // took three times as long: 2 ms more at weight 8
  EXPECT_EQ(policy.ClientRank(ClientId(1)), 4);
  policy.OnGrant(ClientId(1), 8 * kMs);
  EXPECT_EQ(policy.ClientRank(ClientId(1)), 12);
  policy.OnDone(ClientId(1), 8 * kMs, 8 * kMs);
  policy.OnDone(ClientId(1), 8 * kMs, 12 * kMs);  // the first that was granted under the new one
  EXPECT_EQ(policy.ClientRank(ClientId(1)), 16);
}

TEST(ProportionalShare, ASleeperEarnsNothingAndADebtorKeepsItsDebt) {
  ProportionalShare policy;
  policy.OnActive(ClientId(1));
  for (int i = 0; i < 100; ++i) policy.OnGrant(ClientId(1), kMs);
  EXPECT_TRUE(policy.OnActive(ClientId(2)));
  EXPECT_EQ(policy.ClientRank(ClientId(2)), 99);
  EXPECT_FALSE(policy.OnActive(ClientId(1)));
  EXPECT_EQ(policy.ClientRank(ClientId(1)), 100);
}

TEST(StrictPriority, WaitingCountsAsPriority) {
  StrictPriority policy(/*aging_ns=*/100 * kMs);
  policy.SetShare(ClientId(1), {.priority = 3});
  auto rank = [&](uint64_t client, int64_t at_ms) {
    return policy.ClientRank(ClientId(client)) + policy.GangRank(0, at_ms * kMs);
  };
  EXPECT_LT(rank(1, 299), rank(2, 0));
  EXPECT_GT(rank(1, 301), rank(2, 0));
}

TEST(Options, AnUnknownPolicyIsRefusedWithTheNamesOfTheKnown) {
  for (const std::string& name : PolicyNames()) {
    Options options;
    options.policy = name;
    auto policy = MakePolicy(options);
    ASSERT_TRUE(policy.ok());
    EXPECT_EQ((*policy)->name(), name);
  }
  Options options;
  options.policy = "lottery";
  EXPECT_THAT(MakePolicy(options).status().message(), testing::HasSubstr("fifo, share, priority"));
}

}  // namespace
}  // namespace pw::gang
