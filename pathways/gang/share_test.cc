#include "pathways/gang/share.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::gang {
namespace {

TEST(Share, AChangeLeavesAloneWhatItDoesNotName) {
  const Share share = *Changed({.weight = 2, .priority = 3}, {.weight = 4});
  EXPECT_EQ(share, (Share{.weight = 4, .priority = 3}));
  EXPECT_EQ(*Changed(share, {.priority = -1}), (Share{.weight = 4, .priority = -1}));
  EXPECT_EQ(*Changed(share, {}), share);
}

TEST(Share, WhatCannotBeAWeightOrAPriorityIsRefused) {
  for (double weight :
       {0.0, -1.0, 1e-9, 1e9, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(Changed({}, {.weight = weight}).status().code(), absl::StatusCode::kInvalidArgument) << weight;
  }
  EXPECT_FALSE(Changed({}, {.priority = kLargestPriority + 1}).ok());
  EXPECT_FALSE(Changed({}, {.priority = -kLargestPriority - 1}).ok());
}

TEST(Share, TextIsParsedOrRefusedWithWhatItShouldBe) {
  const ShareChange change = *ParseShareChange("2.5", "-7");
  EXPECT_EQ(change.weight, 2.5);
  EXPECT_EQ(change.priority, -7);
  EXPECT_TRUE(ParseShareChange("", "")->empty());
  for (const char* weight : {"many", "nan", "0", "-1", "1e300"}) {
    EXPECT_THAT(std::string(ParseShareChange(weight, "").status().message()), ::testing::HasSubstr("a weight is a number"))
        << weight;
  }
  for (const char* priority : {"high", "1.5", "99999999999"}) {
    EXPECT_THAT(std::string(ParseShareChange("", priority).status().message()),
                ::testing::HasSubstr("a priority is a whole number"));
  }
}

}  // namespace
}  // namespace pw::gang
