#include "pathways/worker/execute/profiles.h"

#include <gmock/gmock.h>

#include <optional>
#include <set>
#include <string>

#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/strand.h"
#include "pathways/device/simulated/runtime.h"
#include "pathways/worker/testing_connection.h"
#include "xla/xplane.pb.h"

namespace pw::worker {
namespace {

using tensorflow::profiler::XSpace;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A runtime whose profiles have one plane, with as many bytes as it is told.
class ProfilingRuntime : public device::SimulatedRuntime {
 public:
  explicit ProfilingRuntime(Executor* executor) : SimulatedRuntime({1, executor}) {}
  absl::StatusOr<std::unique_ptr<device::RuntimeProfile>> StartProfile() override {
    ++started;
    if (!refusal.ok()) return refusal;
    return std::make_unique<Profile>(this);
  }
  size_t plane_bytes = 10;
  absl::Status refusal;
  int started = 0;
  int ended = 0;

 private:
  struct Profile : device::RuntimeProfile {
    explicit Profile(ProfilingRuntime* owner) : owner(owner) {}
    ~Profile() override { ++owner->ended; }
    absl::StatusOr<std::string> Stop(size_t max_bytes) override {
      XSpace space;
      space.add_planes()->set_name(std::string(owner->plane_bytes, 'x'));
      std::string bytes = space.SerializeAsString();
      if (bytes.size() > max_bytes) return absl::ResourceExhaustedError("the runtime has recorded too much");
      return bytes;
    }
    ProfilingRuntime* const owner;
  };
};

class ProfilesTest : public ::testing::Test {
 protected:
  struct Made {
    uint64_t bytes = 0;
    std::string missing;
  };

  static v1::HostConfig::Recording Wanted(uint64_t id, uint64_t session = 0, uint64_t max_bytes = 0) {
    v1::HostConfig::Recording recording;
    recording.set_id(id);
    recording.mutable_profile()->set_session(session);
    recording.mutable_profile()->set_runtime(session == 0);
    recording.mutable_profile()->set_max_bytes(max_bytes);
    return recording;
  }
  static trace::Recording Own() {
    trace::Recording own{"", {"device 0"}, {}, 0};
    own.started = absl::FromUnixSeconds(1000);
    own.events.push_back({trace::Kind::kRun, 0, "f", own.started, absl::Microseconds(5)});
    own.events.back().session = 1;
    return own;
  }
  std::optional<Made> End() {
    std::optional<Made> made;
    profiles_.End(Own(), "h0", [&](uint64_t bytes, const std::string& missing) { made = Made{bytes, missing}; });
    Settle();
    return made;
  }
  void Settle() {
    while (executor_.size() + pool_.size() > 0) {
      executor_.RunUntilIdle();
      pool_.RunUntilIdle();
    }
  }
  absl::StatusOr<std::string> ReadAll(uint64_t id) {
    std::string all;
    for (;;) {
      v1::ProfilePart part;
      part.set_recording(id);
      part.set_offset(all.size());
      const auto piece = profiles_.Read(part);
      if (!piece.ok()) return piece.status();
      if (piece->bytes().empty()) return all;
      EXPECT_LE(piece->bytes().size(), Profiles::kPieceBytes);
      all += piece->bytes();
    }
  }
  std::set<std::string> Planes(uint64_t id) {
    const auto bytes = ReadAll(id);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    XSpace space;
    EXPECT_TRUE(space.ParseFromString(bytes.ok() ? *bytes : ""));
    std::set<std::string> names;
    for (const auto& plane : space.planes()) names.insert(plane.name().substr(0, 40));
    return names;
  }

  ManualExecutor executor_, pool_;
  Strand strand_{&executor_};
  ManualClock clock_;
  RecordingConnection connection_;
  WorkerContext context_{&strand_, &clock_, &connection_, HostId(1)};
  ProfilingRuntime runtime_{&executor_};
  Profiles profiles_{&context_, &runtime_, &pool_};
};

TEST_F(ProfilesTest, HasTheHostsEventsAndTheRuntimes) {
  profiles_.Begin(Wanted(5));
  EXPECT_TRUE(profiles_.recording());
  const auto made = End();
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->missing, "");
  EXPECT_FALSE(profiles_.recording());
  EXPECT_EQ(ReadAll(5)->size(), made->bytes);
  EXPECT_THAT(Planes(5), ElementsAre("/device:CUSTOM:h0 device 0", "xxxxxxxxxx"));
}

TEST_F(ProfilesTest, OneOfASessionNeverAsksTheRuntime) {
  v1::HostConfig::Recording wanted = Wanted(5, 2);
  wanted.mutable_profile()->set_runtime(true);  // as no controller asks
  profiles_.Begin(wanted);
  ASSERT_TRUE(End().has_value());
  EXPECT_EQ(runtime_.started, 0);
  EXPECT_THAT(Planes(5), IsEmpty()) << "the event is of session 1";
}

TEST_F(ProfilesTest, ALongOneIsReadInPieces) {
  runtime_.plane_bytes = 3 * Profiles::kPieceBytes;
  profiles_.Begin(Wanted(5));
  const auto made = End();
  ASSERT_TRUE(made.has_value());
  EXPECT_GT(made->bytes, 3 * Profiles::kPieceBytes);
  EXPECT_EQ(Planes(5).size(), 2u);
}

TEST_F(ProfilesTest, WhatIsTooLargeIsMissingAndNamed) {
  runtime_.plane_bytes = 1000;
  profiles_.Begin(Wanted(5, 0, 500));
  auto made = End();
  ASSERT_TRUE(made.has_value());
  EXPECT_THAT(made->missing, HasSubstr("the runtime has recorded too much"));
  EXPECT_THAT(Planes(5), ElementsAre("/device:CUSTOM:h0 device 0")) << "the host's own events fit";
  profiles_.Begin(Wanted(6, 0, 10));
  made = End();
  EXPECT_THAT(made->missing, HasSubstr("the host's own recording has"));
  EXPECT_THAT(made->missing, HasSubstr("raise the limit"));
  EXPECT_EQ(made->bytes, 0u);
}

TEST_F(ProfilesTest, ARuntimeThatRefusesIsNamedAndOneThatCannotIsNot) {
  runtime_.refusal = absl::FailedPreconditionError("somebody else profiles");
  profiles_.Begin(Wanted(5));
  EXPECT_THAT(End()->missing, HasSubstr("somebody else profiles"));
  runtime_.refusal = absl::UnimplementedError("it has no profiler");
  profiles_.Begin(Wanted(6));
  EXPECT_EQ(End()->missing, "");
  EXPECT_THAT(Planes(6), ElementsAre("/device:CUSTOM:h0 device 0"));
}

TEST_F(ProfilesTest, IsKeptUntilItIsLetGo) {
  profiles_.Begin(Wanted(5));
  End();
  profiles_.Keep(5);
  EXPECT_TRUE(ReadAll(5).ok());
  EXPECT_EQ(ReadAll(4).status().code(), absl::StatusCode::kNotFound);
  v1::ProfilePart beyond;
  beyond.set_recording(5);
  beyond.set_offset(1 << 30);
  EXPECT_EQ(profiles_.Read(beyond).status().code(), absl::StatusCode::kOutOfRange);
  profiles_.Keep(0);
  EXPECT_EQ(ReadAll(5).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadAll(0).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ProfilesTest, OneThatIsGivenUpEndsTheRuntimesRecordingToo) {
  profiles_.Begin(Wanted(5));
  EXPECT_EQ(runtime_.ended, 0);
  profiles_.Keep(0);
  EXPECT_EQ(runtime_.ended, 1);
  EXPECT_FALSE(profiles_.recording());
}

TEST_F(ProfilesTest, OneThatIsGivenUpWhileItIsConvertedIsNotKept) {
  profiles_.Begin(Wanted(5));
  std::optional<uint64_t> made;
  profiles_.End(Own(), "h0", [&](uint64_t bytes, const std::string&) { made = bytes; });
  profiles_.Keep(0);
  Settle();
  EXPECT_EQ(made, 0u);
  EXPECT_EQ(ReadAll(5).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace pw::worker
