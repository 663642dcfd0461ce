#include "pathways/controller/scheduling/hang_watch.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Gang = HangWatch::Gang;

constexpr absl::Time kStart = absl::UnixEpoch();

Gang Measured(uint64_t id, absl::Duration predicted, bool heads = true) {
  return {gang::GangId(id), SessionId(1), heads, predicted};
}

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

TEST(HangWatch, AGangIsASuspectAfterTheLeastTime) {
  HangWatch watch({});
  const std::vector<Gang> underway = {Measured(1, absl::Milliseconds(3))};
  watch.Look(At(0), underway);
  EXPECT_THAT(watch.Suspects(At(10)), IsEmpty());
  watch.Look(At(10.5), underway);
  EXPECT_THAT(watch.Suspects(At(10.5)), SizeIs(1));
}

TEST(HangWatch, ALongGangHasTheTimeThatWasPredictedTenTimes) {
  HangWatch watch({});
  watch.Look(At(0), {Measured(1, absl::Seconds(20))});
  EXPECT_THAT(watch.Suspects(At(199)), IsEmpty());
  EXPECT_THAT(watch.Suspects(At(201)), SizeIs(1));
}

TEST(HangWatch, AFirstRunHasAMinute) {
  HangWatch watch({});
  watch.Look(At(0), {{gang::GangId(1), SessionId(1), true, std::nullopt}});
  EXPECT_THAT(watch.Suspects(At(59)), IsEmpty());
  EXPECT_THAT(watch.Suspects(At(61)), SizeIs(1));
}

TEST(HangWatch, AGangBehindAnotherIsNotCounted) {
  HangWatch watch({});
  watch.Look(At(0), {Measured(1, absl::Seconds(30)), Measured(2, absl::Milliseconds(1), false)});
  EXPECT_THAT(watch.Suspects(At(100)), IsEmpty());
  watch.Look(At(100), {Measured(2, absl::Milliseconds(1))});
  EXPECT_THAT(watch.Suspects(At(105)), IsEmpty());
  EXPECT_THAT(watch.Suspects(At(111)), SizeIs(1));
}

TEST(HangWatch, AGangIsNamedOnceAndItsEndIsToldOnce) {
  HangWatch watch({});
  watch.Look(At(0), {Measured(1, absl::Seconds(0)), Measured(2, absl::Seconds(0))});
  EXPECT_TRUE(watch.Name(gang::GangId(1)));
  EXPECT_FALSE(watch.Name(gang::GangId(1)));
  EXPECT_FALSE(watch.Name(gang::GangId(9)));
  const auto ended = watch.Look(At(20), {});
  ASSERT_THAT(ended, SizeIs(1));  // the other was never named
  EXPECT_EQ(ended[0].gang.gang, gang::GangId(1));
  EXPECT_THAT(watch.Look(At(21), {}), IsEmpty());
}

TEST(HangWatch, TimeInWhichTheControllerWasStoppedDoesNotCount) {
  HangWatch watch({});
  watch.Look(At(0), {Measured(1, absl::Seconds(0))});
  watch.Forgive(At(60));
  EXPECT_THAT(watch.Suspects(At(69)), IsEmpty());
  EXPECT_THAT(watch.Suspects(At(71)), SizeIs(1));
}

TEST(HangWatch, ASuspectMayWaitForAGangThatIsWithinItsTime) {
  HangWatch watch({});
  watch.Look(At(0), {Measured(1, absl::Milliseconds(1)), Measured(2, absl::Seconds(100))});
  const auto suspects = watch.Suspects(At(20));
  ASSERT_THAT(suspects, SizeIs(1));
  EXPECT_TRUE(watch.MayWaitForAnother(suspects[0], At(20)));
  EXPECT_FALSE(watch.MayWaitForAnother(suspects[0], At(1001)));  // that one is late too
}

}  // namespace
}  // namespace pw::controller
