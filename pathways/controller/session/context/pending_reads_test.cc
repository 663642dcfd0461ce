#include "pathways/controller/session/context/pending_reads.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PendingReads::Record PendingArray(int completions) {
  return std::make_shared<buffers::LogicalArray>(ArrayId(1), SessionId(1), std::make_shared<const buffers::ArraySpec>(),
                                                 completions, nullptr);
}

struct ReadsWorld {
  void Hold(const std::string& name, std::vector<PendingReads::Record> arrays) {
    reads->Hold(std::move(arrays), [this, name](absl::Status status) {
      answers.push_back(absl::StrCat(name, " ", status.ok() ? "OK" : std::string(status.message())));
    });
  }
  std::vector<std::string> answers;
  std::unique_ptr<PendingReads> reads = std::make_unique<PendingReads>();
};

TEST(PendingReadsTest, ARequestIsAnsweredWhenItsArraysHaveSettled) {
  ReadsWorld world;
  const auto one = PendingArray(1), two = PendingArray(2);
  world.Hold("none", {PendingArray(0)});
  world.Hold("first", {one});
  world.Hold("both", {one, two});
  EXPECT_THAT(world.answers, ElementsAre("none OK"));
  one->OnDone(absl::OkStatus());
  EXPECT_THAT(world.answers, ElementsAre("none OK", "first OK"));
  two->OnDone(absl::OkStatus());
  two->OnDone(absl::DataLossError("it broke"));
  EXPECT_THAT(world.answers, ElementsAre("none OK", "first OK", "both it broke"));
}

TEST(PendingReadsTest, TheEndAnswersAllAndArraysMaySettleAfterwards) {
  ReadsWorld world;
  const auto one = PendingArray(1);
  world.Hold("ended", {one});
  world.reads->End(absl::CancelledError("over"));
  EXPECT_THAT(world.answers, ElementsAre("ended over"));
  world.Hold("gone", {one});
  world.reads = nullptr;
  one->OnDone(absl::OkStatus());
  EXPECT_THAT(world.answers, ElementsAre("ended over"));
}

TEST(PendingReadsTest, ArraysAreHeldUntilTheyHaveSettled) {
  ReadsWorld world;
  auto one = PendingArray(1);
  const std::weak_ptr<buffers::LogicalArray> seen = one;
  world.Hold("held", {one});
  one = nullptr;
  ASSERT_FALSE(seen.expired());
  EXPECT_THAT(world.answers, IsEmpty());
  seen.lock()->OnDone(absl::OkStatus());
  EXPECT_THAT(world.answers, ElementsAre("held OK"));
  EXPECT_TRUE(seen.expired());
}

TEST(PendingReadsTest, WhoOnlyWaitsIsAnsweredForArraysWhoseDataIsFreed) {
  struct Releases : buffers::LogicalArray::Listener {
    void OnReleased(const buffers::LogicalArray&) override { ++count; }
    int count = 0;
  } releases;
  ReadsWorld world;
  auto one = std::make_shared<buffers::LogicalArray>(ArrayId(1), SessionId(1), std::make_shared<const buffers::ArraySpec>(), 1,
                                                     &releases);
  const std::weak_ptr<buffers::LogicalArray> op = one;
  world.reads->Watch({one, PendingArray(0)}, [&](absl::Status status) { world.answers.push_back(status.ok() ? "OK" : "error"); });
  buffers::LogicalArray::Drop(std::move(one));
  EXPECT_EQ(releases.count, 1);
  EXPECT_THAT(world.answers, IsEmpty());
  op.lock()->OnDone(absl::OkStatus());
  EXPECT_THAT(world.answers, ElementsAre("OK"));
  EXPECT_TRUE(op.expired());
}

}  // namespace
}  // namespace pw::controller
