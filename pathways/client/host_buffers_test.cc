#include "pathways/client/host_buffers.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

session::HostLayout Chars(int64_t count) { return {buffers::DType::kU8, {count}, std::nullopt}; }
Bytes Text(size_t size) { return Bytes::Copy(std::string(size, 'x')); }

// HostBuffers whose Ways record each call as a line of text.
struct World {
  explicit World(int64_t kept = 1000) : buffers({.in_frame = 8, .kept = kept}, Ways()) {}
  HostBuffers::Ways Ways() {
    HostBuffers::Ways ways;
    ways.in_frame = [this](auto buffer, auto data) { said.push_back(absl::StrCat("frame ", buffer, " ", Describe(data))); };
    ways.on_lane = [this](HostId host, auto buffer, const Bytes& data, size_t offset) {
      said.push_back(absl::StrCat("lane ", host.v, " ", buffer, " ", data.size(), " from ", offset));
    };
    ways.failed = [this](HostId host, auto buffer, const absl::Status& error) {
      said.push_back(absl::StrCat("failed ", host.v, " ", buffer, " ", error.message()));
    };
    ways.done = [this](auto buffer) { said.push_back(absl::StrCat("done ", buffer)); };
    return ways;
  }
  static std::string Describe(const absl::StatusOr<Bytes>& data) {
    return data.ok() ? absl::StrCat(data->size()) : std::string(data.status().message());
  }
  std::vector<std::string> Said() { return std::exchange(said, {}); }
  session::StatusCallback Note(std::string what) {
    return
        [this, what](absl::Status status) { said.push_back(absl::StrCat(what, " ", absl::StatusCodeToString(status.code()))); };
  }

  std::vector<std::string> said;
  HostBuffers buffers;
};

TEST(HostBuffersTest, SmallOnesGoInAFrameWhicheverComesFirst) {
  World w;
  w.buffers.Store(1, Text(8));
  EXPECT_THAT(w.Said(), ElementsAre("frame 1 8"));
  EXPECT_FALSE(w.buffers.Make(1, Chars(8)));
  EXPECT_FALSE(w.buffers.Make(2, Chars(8)));
  EXPECT_THAT(w.Said(), IsEmpty());
  w.buffers.Store(2, Text(8));
  EXPECT_THAT(w.Said(), ElementsAre("frame 2 8"));
  EXPECT_EQ(w.buffers.size(), 0);
}

TEST(HostBuffersTest, LargeOnesWaitForTheirHosts) {
  World w;
  w.buffers.Store(1, Text(100));
  EXPECT_TRUE(w.buffers.Make(1, Chars(100)));
  EXPECT_THAT(w.Said(), IsEmpty());
  w.buffers.OnWant(HostId(3), 1, 0, 100);
  w.buffers.OnWant(HostId(4), 1, 40, 100);
  EXPECT_THAT(w.Said(), ElementsAre("lane 3 1 100 from 0", "lane 4 1 100 from 40"));
  EXPECT_EQ(w.buffers.kept_bytes(), 100);
  w.buffers.OnDone(1);
  EXPECT_THAT(w.Said(), ElementsAre("done 1"));
  EXPECT_EQ(w.buffers.kept_bytes(), 0);
  EXPECT_EQ(w.buffers.size(), 0);
}

TEST(HostBuffersTest, AHostMayAskBeforeTheBytesAreThere) {
  World w;
  EXPECT_TRUE(w.buffers.Make(1, Chars(100)));
  w.buffers.OnWant(HostId(3), 1, 0, 100);
  w.buffers.OnWant(HostId(4), 1, 0, 100);
  w.buffers.OnLaneBroken(HostId(4));  // the host will ask again
  EXPECT_THAT(w.Said(), IsEmpty());
  w.buffers.Store(1, Text(100));
  EXPECT_THAT(w.Said(), ElementsAre("lane 3 1 100 from 0"));
}

TEST(HostBuffersTest, StringsGoInAFrameWhateverTheirSize) {
  World w;
  const session::HostLayout strings{buffers::DType::kString, {2}, std::nullopt};
  w.buffers.Store(1, Text(100));
  EXPECT_FALSE(w.buffers.Make(1, strings));
  EXPECT_FALSE(w.buffers.Make(2, strings));
  w.buffers.Store(2, Text(200));
  EXPECT_THAT(w.Said(), ElementsAre("frame 1 100", "frame 2 200"));
  EXPECT_EQ(w.buffers.size(), 0);
  EXPECT_EQ(w.buffers.kept_bytes(), 0);
}

TEST(HostBuffersTest, ErrorsGoTheWayOfTheBytes) {
  World w;
  const absl::Status error = absl::DataLossError("gone");
  w.buffers.Store(1, error);
  EXPECT_FALSE(w.buffers.Make(1, Chars(100)));
  EXPECT_THAT(w.Said(), ElementsAre("frame 1 gone"));
  EXPECT_TRUE(w.buffers.Make(2, Chars(100)));
  w.buffers.Store(2, error);
  w.buffers.OnWant(HostId(3), 2, 0, 100);
  EXPECT_THAT(w.Said(), ElementsAre("failed 3 2 gone"));
  EXPECT_FALSE(w.buffers.Make(3, Chars(4)));
  w.buffers.Store(3, error);
  EXPECT_THAT(w.Said(), ElementsAre("frame 3 gone"));
}

TEST(HostBuffersTest, AnotherSizeThanTheArrayTakesIsAnError) {
  World w;
  w.buffers.Store(1, Text(99));
  EXPECT_TRUE(w.buffers.Make(1, Chars(100)));
  w.buffers.OnWant(HostId(3), 1, 0, 100);
  EXPECT_THAT(w.Said(), ElementsAre(HasSubstr("failed 3 1 a host buffer of 99")));
  EXPECT_FALSE(w.buffers.Make(2, Chars(4)));
  w.buffers.Store(2, Text(99));
  EXPECT_THAT(w.Said(), ElementsAre(HasSubstr("frame 2 a host buffer of 99")));
  EXPECT_TRUE(w.buffers.Make(3, Chars(100)));
  w.buffers.OnWant(HostId(3), 3, 0, 101);
  w.buffers.OnWant(HostId(3), 3, 100, 100);
  w.buffers.OnWant(HostId(3), 4, 0, 100);
  EXPECT_THAT(w.Said(), ElementsAre(HasSubstr("failed 3 3"), HasSubstr("failed 3 3"), HasSubstr("failed 3 4")));
}

TEST(HostBuffersTest, AnArrayThatWasRefusedKeepsNothing) {
  World w;
  EXPECT_TRUE(w.buffers.Make(1, Chars(100)));
  w.buffers.OnDone(1);
  w.buffers.Store(1, Text(100));
  EXPECT_EQ(w.buffers.size(), 0);
  EXPECT_EQ(w.buffers.kept_bytes(), 0);
}

TEST(HostBuffersTest, WhatHasNoRoomWaitsInTurn) {
  World w(250);
  w.buffers.Announce(1, 100, w.Note("1"));
  w.buffers.Announce(2, 100, w.Note("2"));
  w.buffers.Announce(3, 100, w.Note("3"));
  w.buffers.Announce(4, 40, w.Note("4"));
  EXPECT_THAT(w.Said(), ElementsAre("1 OK", "2 OK"));
  w.buffers.Store(1, Text(100));
  EXPECT_TRUE(w.buffers.Make(1, Chars(100)));
  w.buffers.Store(2, Text(100));
  EXPECT_THAT(w.Said(), IsEmpty());
  w.buffers.OnDone(1);
  EXPECT_THAT(w.Said(), ElementsAre("done 1", "3 OK", "4 OK"));
  w.buffers.Announce(5, 4, w.Note("small"));
  EXPECT_THAT(w.Said(), ElementsAre("small OK"));
}

TEST(HostBuffersTest, WhatIsForgottenMakesRoom) {
  World w(150);
  w.buffers.Announce(1, 100, w.Note("1"));
  w.buffers.Announce(2, 100, w.Note("2"));
  EXPECT_THAT(w.Said(), ElementsAre("1 OK"));
  w.buffers.Forget(1);
  EXPECT_THAT(w.Said(), ElementsAre("2 OK"));
  EXPECT_EQ(w.buffers.size(), 1);
}

TEST(HostBuffersTest, NobodyWaitsWhereNothingIsOnItsWay) {
  World w(150);
  w.buffers.Announce(1, 100, w.Note("1"));
  w.buffers.Store(1, Text(100));
  w.buffers.Announce(2, 100, w.Note("2"));  // perhaps of the same array as 1, which no host knows of yet
  EXPECT_THAT(w.Said(), ElementsAre("1 OK", "2 OK"));
}

TEST(HostBuffersTest, TheEndAnswersThoseWhoWait) {
  World w(150);
  w.buffers.Announce(1, 100, w.Note("1"));
  w.buffers.Announce(2, 100, w.Note("2"));
  w.Said();
  w.buffers.End(absl::CancelledError("over"));
  EXPECT_THAT(w.Said(), ElementsAre("2 CANCELLED"));
}

}  // namespace
}  // namespace pw::client
