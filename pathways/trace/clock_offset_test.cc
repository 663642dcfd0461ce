#include "pathways/trace/clock_offset.h"

#include <gtest/gtest.h>

#include "pathways/trace/machine_clock.h"

namespace pw::trace {
namespace {

absl::Time At(int ms) { return absl::FromUnixMillis(ms); }

TEST(ClockOffsetTest, TheFastestAnswerCounts) {
  ClockOffset offset;
  EXPECT_EQ(offset.to_ours(), absl::ZeroDuration());
  offset.AddAnswer(At(100), At(5000), At(140));
  EXPECT_EQ(offset.to_ours(), absl::Milliseconds(120 - 5000));
  EXPECT_EQ(offset.error(), absl::Milliseconds(20));
  offset.AddAnswer(At(200), At(5093), At(202));
  EXPECT_EQ(offset.to_ours(), absl::Milliseconds(201 - 5093));
  offset.AddAnswer(At(300), At(1), At(390));
  EXPECT_EQ(offset.to_ours(), absl::Milliseconds(201 - 5093));
  EXPECT_EQ(offset.error(), absl::Milliseconds(1));
}

TEST(MachineClockTest, IsTheSameTwice) { EXPECT_EQ(MachineClock(), MachineClock()); }

}  // namespace
}  // namespace pw::trace
