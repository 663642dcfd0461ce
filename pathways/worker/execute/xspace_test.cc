#include "pathways/worker/execute/xspace.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace pw::worker {
namespace {

using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const absl::Time kBegun = absl::FromUnixSeconds(1000);

trace::Event Ran(const std::string& name, uint32_t track, int begin_us, int us, uint64_t session) {
  trace::Event event{trace::Kind::kRun, track, name, kBegun + absl::Microseconds(begin_us), absl::Microseconds(us), 7, -1, 3};
  event.session = session;
  return event;
}

trace::Recording Recorded() {
  trace::Recording recording{"", {"device 0", "device 1", "transfers"}, {}, 0};
  recording.started = kBegun;
  recording.events = {Ran("f", 0, 5, 10, 1), Ran("g", 0, 20, 10, 2), Ran("f", 1, 5, 10, 1), Ran("f", 0, 8, 2, 1)};
  recording.events.push_back({trace::Kind::kTransfer, 2, "put", kBegun + absl::Microseconds(1), absl::ZeroDuration(), 6, 4096});
  recording.events.back().session = 2;
  return recording;
}

std::map<std::string, const XPlane*> Planes(const XSpace& space) {
  std::map<std::string, const XPlane*> planes;
  for (const XPlane& plane : space.planes()) planes[plane.name()] = &plane;
  return planes;
}

std::vector<std::string> Names(const XPlane& plane) {
  std::vector<std::string> names;
  for (const XLine& line : plane.lines()) {
    for (const auto& event : line.events()) names.push_back(plane.event_metadata().at(event.metadata_id()).name());
  }
  return names;
}

TEST(XSpaceTest, EachDeviceIsAPlaneAndTheHostIsOne) {
  const XSpace space = ToXSpace(Recorded(), {"h0"});
  const auto planes = Planes(space);
  ASSERT_EQ(planes.size(), 3u);
  const XPlane& first = *planes.at("/device:CUSTOM:h0 device 0");
  EXPECT_THAT(Names(first), UnorderedElementsAre("f", "f", "g"));
  EXPECT_THAT(Names(*planes.at("/device:CUSTOM:h0 device 1")), ElementsAre("f"));
  const XPlane& host = *planes.at("/device:CUSTOM:h0");
  EXPECT_THAT(Names(host), ElementsAre("put"));
  EXPECT_EQ(host.lines(0).name(), "transfers");
  EXPECT_THAT(space.hostnames(), ElementsAre("h0"));
  std::set<int64_t> ids;
  for (const XPlane& plane : space.planes()) ids.insert(plane.id());
  EXPECT_EQ(ids.size(), 3u);
}

TEST(XSpaceTest, TimesCountFromTheStartOfTheRecording) {
  const XSpace space = ToXSpace(Recorded(), {"h0"});
  const XLine& line = Planes(space).at("/device:CUSTOM:h0 device 1")->lines(0);
  ASSERT_EQ(line.events_size(), 1);
  EXPECT_EQ(line.timestamp_ns(), 0);
  EXPECT_EQ(line.events(0).offset_ps(), 5'000'000);
  EXPECT_EQ(line.events(0).duration_ps(), 10'000'000);
}

TEST(XSpaceTest, EventsThatOverlapAreOnLinesOfTheirOwn) {
  const XSpace space = ToXSpace(Recorded(), {"h0"});
  const XPlane& plane = *Planes(space).at("/device:CUSTOM:h0 device 0");
  ASSERT_EQ(plane.lines_size(), 2);
  EXPECT_EQ(plane.lines(0).name(), "computations");
  EXPECT_EQ(plane.lines(0).events_size(), 2);
  EXPECT_EQ(plane.lines(1).name(), "computations (2)");
}

TEST(XSpaceTest, StatsNameTheOperationAndItsBytes) {
  const XSpace space = ToXSpace(Recorded(), {"h0"});
  const XPlane& host = *Planes(space).at("/device:CUSTOM:h0");
  std::map<std::string, int64_t> stats;
  for (const auto& stat : host.lines(0).events(0).stats())
    stats[host.stat_metadata().at(stat.metadata_id()).name()] = stat.int64_value();
  EXPECT_EQ(stats, (std::map<std::string, int64_t>{{"op", 6}, {"bytes", 4096}}));
}

TEST(XSpaceTest, AProfileOfOneSessionHasNothingOfOthers) {
  const XSpace space = ToXSpace(Recorded(), {"h0", 1});
  for (const XPlane& plane : space.planes()) {
    for (const auto& [id, metadata] : plane.event_metadata()) EXPECT_EQ(metadata.name(), "f");
  }
  EXPECT_EQ(space.planes_size(), 2) << "the transfer was the other's";
  EXPECT_THAT(ToXSpace(Recorded(), {"h0", 9}).planes(), IsEmpty());
}

TEST(XSpaceTest, AWarningSaysWhatIsMissing) {
  trace::Recording recording = Recorded();
  recording.dropped = 12;
  EXPECT_THAT(ToXSpace(recording, {"h0"}).warnings(), ElementsAre("h0: 12 events came after the limit and are missing"));
}

TEST(XSpaceTest, TheRuntimesThreadsAreDrawnAsTheHosts) {
  XSpace runtime;
  runtime.add_planes()->set_name("/host:pjrt_cpu");
  runtime.add_planes()->set_name("/device:TPU:0");
  const auto alone = RuntimeXSpace(runtime.SerializeAsString(), {"h0"});
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->planes(0).name(), "/host:CPU");
  EXPECT_EQ(alone->planes(1).name(), "/device:TPU:0");
  const auto merged = RuntimeXSpace(runtime.SerializeAsString(), {"h0", 0, true});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->planes(0).name(), "/host:pjrt_cpu of h0");
  EXPECT_EQ(merged->planes(1).name(), "/device:TPU:0 of h0");
  EXPECT_EQ(RuntimeXSpace("nonsense", {"h0"}).status().code(), absl::StatusCode::kInternal);
}

TEST(XSpaceTest, ARuntimesWallTimesBecomeTimesFromItsStart) {
  const int64_t begun = 1'800'000'000'000'000'000;  // in the year 2027
  XSpace runtime;
  for (const int64_t ns : {begun + 500, begun, int64_t{70}}) runtime.add_planes()->add_lines()->set_timestamp_ns(ns);
  const auto space = RuntimeXSpace(runtime.SerializeAsString(), {"h0"});
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(space->planes(0).lines(0).timestamp_ns(), 500);
  EXPECT_EQ(space->planes(1).lines(0).timestamp_ns(), 0);
  EXPECT_EQ(space->planes(2).lines(0).timestamp_ns(), 70) << "it counted from the start";
}

TEST(XSpaceTest, ARuntimesNameOfTheMachineIsLeftOut) {
  XSpace runtime;
  runtime.add_hostnames("rack1");
  const auto space = RuntimeXSpace(runtime.SerializeAsString(), {"h0"});
  ASSERT_TRUE(space.ok());
  EXPECT_THAT(space->hostnames(), IsEmpty());
}

TEST(XSpaceTest, TwoOfThemOneAfterTheOtherAreOne) {
  const std::string first = ToXSpace(Recorded(), {"h0", 0, true}).SerializeAsString();
  const std::string second = ToXSpace(Recorded(), {"h1", 0, true}).SerializeAsString();
  XSpace both;
  ASSERT_TRUE(both.ParseFromString(first + second));
  const auto planes = Planes(both);
  EXPECT_EQ(planes.size(), 6u) << "no two have one name";
  EXPECT_THAT(planes, Contains(::testing::Key("/device:CUSTOM:h1 device 0")));
}

}  // namespace
}  // namespace pw::worker
