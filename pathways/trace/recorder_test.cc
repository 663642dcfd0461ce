#include "pathways/trace/recorder.h"

#include <gmock/gmock.h>

#include "pathways/base/testing/manual_world.h"

namespace pw::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RecorderTest, KeepsNothingWhileItIsOff) {
  ManualClock clock;
  Recorder recorder(&clock);
  EXPECT_FALSE(recorder.on());
  recorder.Instant(Kind::kGrant, "queue", "early");
  recorder.Start();
  EXPECT_TRUE(recorder.on());
  EXPECT_THAT(recorder.Stop().events, IsEmpty());
  EXPECT_FALSE(recorder.on());
  recorder.Instant(Kind::kGrant, "queue", "late");
  EXPECT_THAT(recorder.Stop().events, IsEmpty());
}

TEST(RecorderTest, KeepsSpansWithTheirTracks) {
  ManualClock clock;
  Recorder recorder(&clock);
  recorder.Start();
  const absl::Time begin = clock.now;
  clock.now += absl::Microseconds(5);
  recorder.Span(Kind::kRun, "device 0", "f", begin, {.flow = 7, .bytes = 64});
  recorder.Instant(Kind::kPrepare, "commands", "f", {.flow = 7});
  recorder.Instant(Kind::kRun, "device 0", "g");
  const Recording recording = recorder.Stop();
  EXPECT_THAT(recording.tracks, ElementsAre("device 0", "commands"));
  ASSERT_EQ(recording.events.size(), 3);
  EXPECT_EQ(recording.events[0].begin, begin);
  EXPECT_EQ(recording.events[0].duration, absl::Microseconds(5));
  EXPECT_EQ(recording.events[0].flow, 7);
  EXPECT_EQ(recording.events[0].bytes, 64);
  EXPECT_EQ(recording.events[1].track, 1);
  EXPECT_EQ(recording.events[2].track, 0);
}

TEST(RecorderTest, CutsASpanThatBeganBefore) {
  ManualClock clock;
  Recorder recorder(&clock);
  const absl::Time begin = clock.now;
  clock.now += absl::Seconds(1);
  recorder.Start();
  clock.now += absl::Seconds(2);
  recorder.Span(Kind::kRun, "device 0", "f", begin);
  const Recording recording = recorder.Stop();
  EXPECT_EQ(recording.events[0].begin, begin + absl::Seconds(1));
  EXPECT_EQ(recording.events[0].duration, absl::Seconds(2));
}

TEST(RecorderTest, KeepsTheEndOfASpanThatIsRecordedLater) {
  ManualClock clock;
  Recorder recorder(&clock);
  recorder.Start();
  const absl::Time begin = clock.now;
  clock.now += absl::Seconds(1);
  recorder.Span(Kind::kRun, "device 0", "f", begin, begin + absl::Milliseconds(3), {.gang = 4});
  const Recording recording = recorder.Stop();
  EXPECT_EQ(recording.events[0].begin, begin);
  EXPECT_EQ(recording.events[0].duration, absl::Milliseconds(3));
  EXPECT_EQ(recording.events[0].gang, 4);
}

TEST(RecorderTest, LeavesAnInstantOfASpanThatEndedBefore) {
  ManualClock clock;
  Recorder recorder(&clock);
  const absl::Time begin = clock.now;
  clock.now += absl::Seconds(1);
  recorder.Start();
  clock.now += absl::Seconds(2);
  recorder.Span(Kind::kRun, "device 0", "f", begin, begin + absl::Milliseconds(3));
  const Recording recording = recorder.Stop();
  EXPECT_EQ(recording.events[0].begin, begin + absl::Seconds(1));
  EXPECT_EQ(recording.events[0].duration, absl::ZeroDuration());
}

TEST(RecorderTest, CountsWhatComesAfterTheLimit) {
  ManualClock clock;
  Recorder recorder(&clock);
  recorder.Start(2);
  for (int i = 0; i < 5; ++i) recorder.Instant(Kind::kRequest, "client", "x");
  const Recording recording = recorder.Stop();
  EXPECT_EQ(recording.events.size(), 2);
  EXPECT_EQ(recording.dropped, 3);
}

}  // namespace
}  // namespace pw::trace
