#include "pathways/client/fetched_buffers.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// FetchedBuffers, whose answers are kept as lines of text.
struct FetchedWorld : Executor {
  void Post(Task task) override { tasks.push_back(std::move(task)); }
  void Lookup(session::Handle buffer) {
    buffers.Lookup(buffer, [this, buffer](absl::StatusOr<Bytes> data) {
      answers.push_back(absl::StrCat(
          buffer, " ", data.ok() ? std::string(data->view()) : std::string(absl::StatusCodeToString(data.status().code()))));
    });
  }
  std::vector<std::string> Answers() {
    for (; !tasks.empty(); tasks.pop_front()) std::move(tasks.front())();
    return std::exchange(answers, {});
  }

  std::deque<Task> tasks;
  std::vector<std::string> answers;
  FetchedBuffers buffers{this};
};

TEST(FetchedBuffersTest, BytesAreThereUntilTheyAreDeleted) {
  FetchedWorld world;
  ASSERT_TRUE(world.buffers.Begin(7).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(world.buffers.Begin(7)));
  EXPECT_TRUE(absl::IsAlreadyExists(world.buffers.Begin(0)));
  world.buffers.Fill(7, Bytes::Copy("abc"));
  world.Lookup(7);
  EXPECT_THAT(world.answers, IsEmpty()) << "an answer comes in a task of its own";
  world.Lookup(7);
  EXPECT_THAT(world.Answers(), ElementsAre("7 abc", "7 abc"));
  EXPECT_TRUE(world.buffers.Delete(7).ok());
  EXPECT_TRUE(absl::IsNotFound(world.buffers.Delete(7)));
  world.Lookup(7);
  EXPECT_THAT(world.Answers(), ElementsAre("7 NOT_FOUND"));
}

TEST(FetchedBuffersTest, LookupsWaitForTheBytesAlsoOfADeletedBuffer) {
  FetchedWorld world;
  for (session::Handle buffer : {1, 2, 3}) ASSERT_TRUE(world.buffers.Begin(buffer).ok());
  for (session::Handle buffer : {1, 2, 3}) world.Lookup(buffer);
  ASSERT_TRUE(world.buffers.Delete(2).ok());
  EXPECT_THAT(world.Answers(), IsEmpty());
  world.buffers.Fill(1, Bytes::Copy("a"));
  world.buffers.Fill(2, Bytes::Copy("b"));
  world.buffers.Fill(3, absl::DataLossError("it broke"));
  EXPECT_THAT(world.Answers(), ElementsAre("1 a", "2 b", "3 DATA_LOSS"));
  for (session::Handle buffer : {1, 2, 3}) world.Lookup(buffer);
  EXPECT_THAT(world.Answers(), ElementsAre("1 a", "2 NOT_FOUND", "3 NOT_FOUND"));
}

TEST(FetchedBuffersTest, TheEndAnswersWhatWaits) {
  FetchedWorld world;
  ASSERT_TRUE(world.buffers.Begin(1).ok());
  world.Lookup(1);
  world.Lookup(1);
  world.buffers.End(absl::UnavailableError("the controller is gone"));
  world.buffers.Fill(1, Bytes::Copy("late"));
  EXPECT_THAT(world.Answers(), ElementsAre("1 UNAVAILABLE", "1 UNAVAILABLE"));
  world.Lookup(1);
  EXPECT_THAT(world.Answers(), ElementsAre("1 UNAVAILABLE"));
  EXPECT_TRUE(absl::IsUnavailable(world.buffers.Delete(1)));
}

}  // namespace
}  // namespace pw::client
