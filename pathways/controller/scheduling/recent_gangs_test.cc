#include "pathways/controller/scheduling/recent_gangs.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<uint64_t> NumbersAfter(const RecentGangs& recent, uint64_t after) {
  std::vector<uint64_t> numbers;
  for (const RecentGang& gang : recent.After(after)) numbers.push_back(gang.number);
  return numbers;
}

TEST(RecentGangs, AReaderGetsEachOnce) {
  RecentGangs recent;
  EXPECT_EQ(recent.last(), 0u);
  for (int i = 0; i < 3; ++i) recent.Add({});
  EXPECT_THAT(NumbersAfter(recent, 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(NumbersAfter(recent, 2), ElementsAre(3));
  EXPECT_THAT(NumbersAfter(recent, 3), IsEmpty());
  EXPECT_THAT(NumbersAfter(recent, 17), IsEmpty());
  EXPECT_EQ(recent.last(), 3u);
}

TEST(RecentGangs, TheOldestMakeRoom) {
  RecentGangs recent;
  for (size_t i = 0; i < RecentGangs::kMost + 5; ++i) recent.Add({});
  const std::vector<uint64_t> numbers = NumbersAfter(recent, 0);
  EXPECT_EQ(numbers.size(), RecentGangs::kMost);
  EXPECT_EQ(numbers.front(), 6u);
  EXPECT_EQ(numbers.back(), RecentGangs::kMost + 5);
}

TEST(RecentGangs, NothingIsRecordedUnlessSomebodyLooks) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  RecentGangs recent;
  EXPECT_FALSE(recent.on());
  recent.Look(start);
  EXPECT_TRUE(recent.on());
  recent.Add({});
  recent.Tick(start + RecentGangs::kForget - absl::Seconds(1));
  EXPECT_TRUE(recent.on());
  recent.Tick(start + RecentGangs::kForget);
  EXPECT_FALSE(recent.on());
  EXPECT_THAT(NumbersAfter(recent, 0), IsEmpty());
  recent.Add({});
  EXPECT_THAT(NumbersAfter(recent, 0), ElementsAre(2)) << "numbers go on, so that a reader who comes back is not confused";
}

TEST(GangLabel, DevicesAreRanges) {
  const std::vector<DeviceId> devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(5), DeviceId(7), DeviceId(8)};
  EXPECT_THAT(GangLabel::RangesOf(devices),
              ElementsAre(Pair(DeviceId(0), DeviceId(2)), Pair(DeviceId(5), DeviceId(5)), Pair(DeviceId(7), DeviceId(8))));
  EXPECT_THAT(GangLabel::RangesOf({}), IsEmpty());
}

}  // namespace
}  // namespace pw::controller
