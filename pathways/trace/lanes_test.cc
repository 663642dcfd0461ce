#include "pathways/trace/lanes.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "pathways/base/testing/random.h"

namespace pw::trace {
namespace {

using ::testing::ElementsAre;

Event Spanning(int begin_us, int us, uint32_t track = 0) {
  return {Kind::kRun, track, "f", absl::FromUnixSeconds(1000) + absl::Microseconds(begin_us), absl::Microseconds(us)};
}

TEST(LanesTest, ASpanTakesTheFirstLaneThatIsFree) {
  const Lanes lanes = LanesOf({"host", {"device 0"}, {Spanning(0, 10), Spanning(5, 10), Spanning(10, 3)}, 0});
  EXPECT_THAT(lanes.lane, ElementsAre(0, 1, 0));
}

TEST(LanesTest, TracksHaveLanesOfTheirOwn) {
  const Lanes lanes = LanesOf({"host", {"device 0", "device 1"}, {Spanning(5, 10), Spanning(0, 10, 1), Spanning(6, 1)}, 0});
  EXPECT_THAT(lanes.order, ElementsAre(1, 0, 2));
  EXPECT_THAT(lanes.lane, ElementsAre(0, 0, 1));
}

TEST(LanesTest, TheFirstLaneHasTheTracksName) {
  EXPECT_EQ(LaneName("device 0", 0), "device 0");
  EXPECT_EQ(LaneName("device 0", 1), "device 0 (2)");
}

TEST(LanesTest, NothingOfALaneOverlaps) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Recording recording{"host", {"a", "b"}, {}, 0};
    for (int i = 0; i < 40; ++i) {
      recording.events.push_back(Spanning(static_cast<int>(random.Below(100)), static_cast<int>(random.Below(20)),
                                          static_cast<uint32_t>(random.Below(2))));
    }
    const Lanes lanes = LanesOf(recording);
    for (size_t i = 0; i < 40; ++i) {
      for (size_t j = 0; j < i; ++j) {
        const Event &a = recording.events[i], &b = recording.events[j];
        if (a.track != b.track || lanes.lane[i] != lanes.lane[j]) continue;
        EXPECT_TRUE(a.begin + a.duration <= b.begin || b.begin + b.duration <= a.begin) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace pw::trace
