#include "pathways/controller/scheduling/lease_length.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace pw::controller {
namespace {

constexpr int64_t kLimitNs = 5'000'000;

class LeaseLengthTest : public ::testing::Test {
 protected:
  uint64_t Next(LeaseLength& length) {
    const LeaseLength::Lease lease = length.Next([this] { return ExecutableId(++ids_); });
    last_ = lease.id;
    return lease.turns;
  }
  uint64_t ids_ = 0;
  ExecutableId last_;
};

TEST_F(LeaseLengthTest, BeginsWithTheTurnsThatTheDefaultAllows) {
  LeaseLength two(kLimitNs, 2'000'000, 1000), slow(kLimitNs, 1'000'000'000, 1000);
  EXPECT_EQ(Next(two), 2u);
  EXPECT_EQ(Next(slow), 1u);
}

TEST_F(LeaseLengthTest, GrowsToTheLimitByDoubling) {
  LeaseLength length(kLimitNs, kLimitNs, 1000);
  EXPECT_EQ(Next(length), 1u);
  length.Learn(100'000);  // 50 turns fit
  for (uint64_t turns : {2u, 4u, 8u, 16u, 32u, 32u, 32u}) EXPECT_EQ(Next(length), turns);
}

TEST_F(LeaseLengthTest, ShrinksAtOnceWhenTurnsTakeLonger) {
  LeaseLength length(kLimitNs, 50'000, 1000);
  EXPECT_EQ(Next(length), 64u);
  length.Learn(2 * kLimitNs);
  EXPECT_EQ(Next(length), 1u);
}

TEST_F(LeaseLengthTest, EachLengthHasOneId) {
  LeaseLength length(kLimitNs, kLimitNs, 1000);
  Next(length);
  const ExecutableId one = last_;
  length.Learn(1'000'000);
  Next(length);
  const ExecutableId two = last_;
  length.Learn(1e12);
  Next(length);
  EXPECT_NE(one, two);
  EXPECT_EQ(last_, one);
  EXPECT_EQ(length.ids(), (std::vector<ExecutableId>{one, two}));
}

TEST_F(LeaseLengthTest, IgnoresTimesThatAreNone) {
  LeaseLength length(kLimitNs, 1'000'000, 1000);
  const uint64_t before = Next(length);
  for (double wrong : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    length.Learn(wrong);
  EXPECT_EQ(Next(length), before);
}

// LL-1, for any times that hosts may report.
TEST_F(LeaseLengthTest, StaysWithinItsBounds) {
  constexpr uint64_t kMost = 100;
  LeaseLength length(kLimitNs, 1'000'000, kMost);
  uint64_t last = Next(length);
  for (double ns = 1e-300; ns < 1e300; ns *= 1e7) {
    length.Learn(ns > 1e15 ? 1 / ns : ns);
    const uint64_t turns = Next(length);
    EXPECT_GE(turns, 1u);
    EXPECT_LE(turns, std::min(kMost, 2 * last));
    last = turns;
  }
}

}  // namespace
}  // namespace pw::controller
