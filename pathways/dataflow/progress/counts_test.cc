#include "pathways/dataflow/progress/counts.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/random.h"
#include "pathways/dataflow/progress/sequence_set.h"

namespace pw::dataflow {
namespace {

using Stretch = Counts::Stretch;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Counts, KeepEqualNeighboursAsOneRun) {
  Counts counts;
  for (uint32_t s = 0; s < 2048; ++s) counts.Append({s, 1, 3});
  EXPECT_THAT(counts.stretches(), ElementsAre(Stretch{0, 2048, 3}));
  EXPECT_EQ(counts.Of(2047), 3u);
  EXPECT_EQ(counts.Of(2048), 0u);
}

TEST(Counts, OfNothingTakeNothing) {
  Counts counts;
  counts.Append({5, 3, 0});
  EXPECT_THAT(counts.stretches(), IsEmpty());
}

// The sum of random counts equals that of a plain map, in the shortest form.
TEST(Counts, AddLikeAMap) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    std::map<uint32_t, uint64_t> model;
    Counts sum;
    for (int part = 0; part < 4; ++part) {
      Counts counts;
      for (uint32_t at = random.Below(3); at < 30; at += random.Below(3)) {
        const Stretch run{at, 1 + random.Below(4), random.Below(3)};
        counts.Append(run);
        for (uint32_t s = 0; s < run.length; ++s) model[at + s] += run.messages;
        at += run.length;
      }
      sum.Add(counts);
    }
    for (uint32_t s = 0; s < 40; ++s) ASSERT_EQ(sum.Of(s), model.count(s) ? model[s] : 0) << "seed " << seed;
    Counts shortest;
    for (const auto& [shard, messages] : model) shortest.Append({shard, 1, messages});
    ASSERT_EQ(sum, shortest);
    ASSERT_TRUE(Counts::Check(sum.stretches(), 40).ok());
  }
}

TEST(Counts, FromOutsideAreChecked) {
  auto check = [](std::vector<Stretch> runs) { return Counts::Check(runs, 10).code(); };
  EXPECT_EQ(check({{0, 10, 1}}), absl::StatusCode::kOk);
  EXPECT_EQ(check({{0, 11, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check({{UINT32_MAX, UINT32_MAX, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check({{3, 1, 1}, {3, 1, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check({{3, 0, 1}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check({{3, 1, 0}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(check({{3, 1, UINT64_MAX}}), absl::StatusCode::kInvalidArgument);
}

TEST(SequenceSet, KnowsWhatItHasSeen) {
  SequenceSet seen;
  EXPECT_FALSE(seen.Insert(0));
  EXPECT_TRUE(seen.Insert(3));
  EXPECT_FALSE(seen.Insert(3));
  EXPECT_TRUE(seen.Insert(1));
  EXPECT_EQ(seen.gaps(), 1u);
  EXPECT_TRUE(seen.Insert(2));
  EXPECT_EQ(seen.gaps(), 0u);
  EXPECT_FALSE(seen.Insert(2));
  seen.InsertUpTo(10);
  EXPECT_FALSE(seen.Insert(10));
  EXPECT_TRUE(seen.Insert(11));
}

}  // namespace
}  // namespace pw::dataflow
