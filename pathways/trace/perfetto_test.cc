#include "pathways/trace/perfetto.h"

#include <gmock/gmock.h>

namespace pw::trace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kZero = absl::FromUnixSeconds(1000);

Event Span(const char* name, int begin_us, int us, uint64_t flow = 0) {
  return {Kind::kRun, 0, name, kZero + absl::Microseconds(begin_us), absl::Microseconds(us), flow, -1};
}

TEST(PerfettoTest, TimesCountFromTheEarliestEvent) {
  const Recording recording{"host", {"device 0"}, {Span("f", 50, 10), Span("g", 20, 1)}, 0};
  const std::string json = ToPerfettoJson({recording});
  EXPECT_THAT(json, HasSubstr(R"("cat":"run","name":"f","ts":30.000,"dur":10.000)"));
  EXPECT_THAT(json, HasSubstr(R"("cat":"run","name":"g","ts":0.000,"dur":1.000)"));
  EXPECT_THAT(json, HasSubstr(R"("args":{"name":"host"})"));
}

TEST(PerfettoTest, WhatOverlapsOnATrackGetsALaneOfItsOwn) {
  const Recording recording{"host", {"device 0"}, {Span("a", 0, 10), Span("b", 5, 10), Span("c", 10, 3)}, 0};
  const std::string json = ToPerfettoJson({recording});
  EXPECT_THAT(json, HasSubstr(R"("name":"device 0")"));
  EXPECT_THAT(json, HasSubstr(R"-("name":"device 0 (2)")-"));
  EXPECT_THAT(json, Not(HasSubstr("device 0 (3)")));
  EXPECT_THAT(json, HasSubstr(R"("tid":1,"cat":"run","name":"c")"));
}

TEST(PerfettoTest, ArrowsFollowAFlowAcrossProcessesInTime) {
  const Recording controller{"controller", {"client 1"}, {Span("f", 0, 90, 7), Span("alone", 0, 90, 8)}, 0};
  const Recording host{"host", {"device 0"}, {Span("f", 40, 10, 7)}, 0};
  const std::string json = ToPerfettoJson({controller, host});
  EXPECT_THAT(json, HasSubstr(R"({"ph":"s","pid":1,"tid":1,"id":7)"));
  EXPECT_THAT(json, HasSubstr(R"({"ph":"f","pid":2,"tid":1,"id":7)"));
  EXPECT_THAT(json, Not(HasSubstr(R"("id":8)")));
}

TEST(PerfettoTest, SaysWhatIsMissing) {
  EXPECT_THAT(ToPerfettoJson({Recording{"host", {}, {}, 12}}), HasSubstr(R"("events_not_recorded":12)"));
  EXPECT_THAT(ToPerfettoJson({}), HasSubstr(R"("traceEvents":[])"));
}

TEST(PerfettoTest, SaysAtWhatTimeTheEarliestEventBegan) {
  const Recording recording{"host", {"device 0"}, {Span("f", 50, 10), Span("g", 20, 1)}, 0};
  const absl::Duration to_wall = absl::Hours(1);
  EXPECT_THAT(ToPerfettoJson({recording}, {}, to_wall), HasSubstr(R"("silent_hosts":[],"began_unix_us":4600000020})"));
  EXPECT_THAT(ToPerfettoJson({recording}), Not(HasSubstr("began_unix_us")));
  EXPECT_THAT(ToPerfettoJson({}, {}, to_wall), Not(HasSubstr("began_unix_us"))) << "nothing began";
}

TEST(PerfettoTest, InstantsCarryTheirBytes) {
  Event event = Span("put", 0, 0);
  event.bytes = 4096;
  const std::string json = ToPerfettoJson({Recording{"host", {"moves"}, {event}, 0}});
  EXPECT_THAT(json, HasSubstr(R"("ph":"i")"));
  EXPECT_THAT(json, HasSubstr(R"("args":{"bytes":4096})"));
}

TEST(PerfettoTest, WhatTheCheckNeedsIsWritten) {
  Event event = Span("f", 0, 5, 7);
  event.gang = 9;
  event.needs = {1, 2};
  event.makes = {3};
  Recording recording{"host", {"device 0"}, {event}, 0};
  recording.clock_error = absl::Microseconds(12);
  const std::vector<std::string> silent = {"host h1"};
  const std::string json = ToPerfettoJson({recording}, silent);
  EXPECT_THAT(json, HasSubstr(R"("args":{"op":7,"gang":9,"needs":[1,2],"makes":[3]})"));
  EXPECT_THAT(json, HasSubstr(R"("clock_error_us":12,"silent_hosts":["host h1"])"));
}

}  // namespace
}  // namespace pw::trace
