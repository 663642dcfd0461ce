// Commands that come again, as from a second controller, change nothing, and get the answers that they have had.
#include "pathways/worker/repeated_commands.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Requests of session 1 make the arrays, by one object each; their ops have the same numbers.
class RepeatedCommandsTest : public ::testing::Test {
 protected:
  RepeatedCommandsTest() {
    w.connection.repeats = true;
    w.Compile(1, kAdd);
    w.Compile(2, kDonate);
    w.Settle();
    w.on_command = [this](const v1::Command& command, const std::string& payload) { sent.emplace_back(command, payload); };
  }
  static uint64_t Of(uint64_t request) { return *RequestName{SessionId(1), request, 0, false}.Number(); }
  void RepeatAll() {
    w.Settle();
    const auto again = std::exchange(sent, {});
    for (const auto& [command, payload] : again) w.Do(command, payload);
    w.Settle();
  }
  // Returns the shard's elements. The reading is not repeated later.
  std::vector<float> Read(uint64_t array) {
    const auto kept = sent;
    std::vector<float> values = w.Read(array, 0);
    sent = kept;
    return values;
  }

  WorkerHarness w;
  std::vector<std::pair<v1::Command, std::string>> sent;
};

TEST_F(RepeatedCommandsTest, AComputationRunsOnce) {
  w.Put(Of(1), Of(1), {1, 2, 3, 4});
  w.Execute(Of(2), 1, {Of(1)}, {Of(2)});
  w.Execute(Of(3), 2, {Of(2)}, {Of(3)});   // takes its argument over
  w.Execute(Of(4), 99, {Of(1)}, {Of(4)});  // there is no such program
  w.Release(Of(1));
  w.Settle();
  const size_t launches = w.runtime.launches().size();
  RepeatAll();
  EXPECT_EQ(w.runtime.launches().size(), launches);
  EXPECT_EQ(w.connection.repeated, 4);
  EXPECT_EQ(w.worker->arrays(), 2) << "one holds a value, one an error";
  EXPECT_THAT(Read(Of(3)), ElementsAre(3, 4, 5, 6));
}

TEST_F(RepeatedCommandsTest, AComputationUnderWayIsAnsweredOnce) {
  w.PutLater(Of(1), Of(1), 4);
  v1::Command command;
  auto& execute = *command.mutable_execute();
  execute.set_op(Of(2));
  execute.set_enqueued(Of(3));
  execute.set_executable(1);
  execute.add_args(Of(1));
  execute.add_results(Of(2));
  execute.set_grant(5);
  w.Do(command);
  RepeatAll();
  EXPECT_TRUE(w.connection.done.empty());
  v1::Command grant;
  grant.mutable_grant()->add_gangs(5);
  w.Do(grant);
  RepeatAll();
  EXPECT_THAT(w.connection.done, ElementsAre(Pair(Of(3), absl::OkStatus())));
  w.SendChunks(Of(1), {1, 2, 3, 4});
  w.Settle();
  EXPECT_EQ(w.connection.done.size(), 3u);
  EXPECT_THAT(Read(Of(2)), ElementsAre(2, 3, 4, 5));
}

TEST_F(RepeatedCommandsTest, APutTakesItsBytesOnce) {
  w.SendChunks(Of(1), {1, 2, 3, 4});
  RepeatAll();  // before the Put
  w.PutLater(Of(1), Of(1), 4);
  w.PutLater(Of(2), Of(2), 4);
  w.SendChunks(Of(2), {5, 6, 7, 8});
  RepeatAll();
  w.SendChunks(Of(2), {5, 6, 7, 8}, 12);
  w.PutLater(Of(3), Of(3), 4);
  v1::Command abort;
  abort.mutable_abort_transfer()->set_transfer(Of(3) + 1000000);
  abort.mutable_abort_transfer()->mutable_status()->set_code(1);
  abort.mutable_abort_transfer()->mutable_status()->set_message("it will not come");
  w.Do(abort);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(Of(3)), absl::CancelledError("it will not come"));
  EXPECT_THAT(Read(Of(1)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Read(Of(2)), ElementsAre(5, 6, 7, 8));
  for (uint64_t request : {1, 2, 3}) w.Release(Of(request));
  RepeatAll();
  EXPECT_EQ(w.worker->arrays(), 0);
}

// While half of the bytes are there, they come again from the beginning.
TEST_F(RepeatedCommandsTest, ATransferGoesOnWhereItWas) {
  w.PutLater(Of(1), Of(1), 4);
  w.SendChunks(Of(1), {1, 2, 3, 4}, 4);
  const auto chunks = std::vector(sent.begin() + 1, sent.end());
  ASSERT_EQ(chunks.size(), 4u);
  w.TellSettled(UINT64_MAX);  // another Put of the same name is new
  w.PutLater(Of(1), Of(2), 4);
  for (int i = 0; i < 2; ++i) w.Do(chunks[i].first, chunks[i].second);
  w.connection.done.clear();
  w.SendChunks(Of(1), {1, 2, 3, 4}, 8);
  w.Settle();
  EXPECT_TRUE(w.connection.done.at(Of(1)).ok());
  EXPECT_THAT(Read(Of(2)), ElementsAre(1, 2, 3, 4));
}

TEST_F(RepeatedCommandsTest, NamesAreGivenOnce) {
  w.Put(Of(1), Of(1), {1, 2, 3, 4});
  w.Alias(Of(2), Of(2), 0, Of(1), 0);
  v1::Command bitcast;
  bitcast.mutable_bitcast()->set_op(Of(3));
  bitcast.mutable_bitcast()->set_session(1);
  bitcast.mutable_bitcast()->set_source(Of(1));
  bitcast.mutable_bitcast()->set_result(Of(3));
  bitcast.mutable_bitcast()->set_dtype(11);
  bitcast.mutable_bitcast()->add_dims(4);
  w.Do(bitcast);
  v1::Command poison;
  poison.mutable_poison()->set_session(1);
  poison.mutable_poison()->add_arrays(Of(4));
  poison.mutable_poison()->mutable_error()->set_code(3);
  w.Do(poison);
  for (uint64_t request : {1, 2, 3, 4}) w.Release(Of(request));
  RepeatAll();
  EXPECT_EQ(w.worker->arrays(), 0);
  poison.mutable_poison()->add_arrays(Of(5));
  w.Do(poison);
  EXPECT_EQ(w.worker->arrays(), 1) << "what is new in a command takes effect";
}

TEST_F(RepeatedCommandsTest, AnExpectedArrayIsFulfilledOnce) {
  v1::Command expect;
  expect.mutable_expect()->set_session(1);
  expect.mutable_expect()->set_array(Of(1));
  expect.mutable_expect()->add_placements();
  w.Do(expect);
  v1::Command under_way;
  under_way.mutable_expect()->set_array(Of(1));
  under_way.mutable_expect()->set_under_way(true);
  w.Do(under_way);
  w.Put(Of(2), Of(2), {1, 2, 3, 4}, {0});
  RepeatAll();
  v1::Command fulfil;
  fulfil.mutable_fulfil()->set_op(Of(3));
  fulfil.mutable_fulfil()->set_session(1);
  fulfil.mutable_fulfil()->set_array(Of(1));
  fulfil.mutable_fulfil()->set_source(Of(2));
  w.Do(fulfil);
  RepeatAll();
  EXPECT_THAT(Read(Of(1)), ElementsAre(1, 2, 3, 4));
  w.Release(Of(1));
  RepeatAll();
  EXPECT_EQ(w.worker->arrays(), 0);
}

TEST_F(RepeatedCommandsTest, AMoveMovesOnce) {
  w.Put(Of(1), Of(1), {1, 2, 3, 4});
  v1::Command command;
  auto& move = *command.mutable_move();
  move.set_op(Of(2));
  move.set_session(1);
  auto& receive = *move.add_receives();
  receive.set_array(Of(2));
  receive.set_local_device(1);
  receive.set_dtype(11);
  receive.add_dims(4);
  auto& piece = *receive.add_pieces();
  piece.mutable_to()->add_start(0);
  piece.mutable_to()->add_size(4);
  piece.set_source_array(Of(1));
  piece.mutable_from()->add_start(0);
  piece.set_from_host(1);
  w.Do(command);
  w.Settle();
  w.Release(Of(1));
  RepeatAll();
  EXPECT_EQ(w.worker->arrays(), 1);
  EXPECT_THAT(Read(Of(2)), ElementsAre(1, 2, 3, 4));
}

TEST_F(RepeatedCommandsTest, AShardThatWasReadCanBeReadAgainWhenItIsGone) {
  w.Put(Of(1), Of(1), {1, 2, 3, 4});
  w.Fetch(Of(2), Of(1), 0);
  w.Release(Of(1));
  w.Fetch(Of(3), Of(1), 0);  // there is nothing any more
  RepeatAll();
  EXPECT_EQ(w.connection.fetched.size(), 2u);
  EXPECT_EQ(w.connection.repeated, 3);
  EXPECT_THAT(Floats(w.connection.fetched_bytes.at(Of(2))), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(w.connection.fetched.at(Of(3)).status().code(), 5);
}

// A shard that does not fit into one message is read again.
TEST_F(RepeatedCommandsTest, LargeShardsAreNotKept) {
  w.Put(Of(1), Of(1), std::vector<float>(20000, 3));
  w.Fetch(Of(2), Of(1), 0);
  w.Settle();
  EXPECT_GT(w.connection.chunks, 0);
  EXPECT_EQ(w.worker->had_names(), 1) << "the Put";
  w.Fetch(Of(3), Of(1), 0);
  w.Settle();
  EXPECT_EQ(w.connection.fetched_bytes.at(Of(3)), w.connection.fetched_bytes.at(Of(2)));
}

TEST_F(RepeatedCommandsTest, NamesAreKeptUntilTheirRequestsAreSettled) {
  for (uint64_t request = 1; request <= 8; ++request) w.Put(Of(request), Of(request), {1});
  EXPECT_EQ(w.worker->had_names(), 8);
  w.TellSettled(5);
  EXPECT_EQ(w.worker->had_names(), 3);
  w.TellSettled(7, 2);
  EXPECT_EQ(w.worker->had_names(), 3) << "another session's requests";
  w.ReleaseOwner(1);
  EXPECT_EQ(w.worker->had_names(), 0);
}

}  // namespace
}  // namespace pw::worker
