// Tests that a client's requests take neither a host's memory nor its threads from others (docs/security.md).
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"
#include "pathways/worker/worker.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;

// With strides, two elements can span any part of a host's memory.
TEST(GreedyClients, StridesOfAClientTakeNoMemoryForGaps) {
  WorkerHarness w;
  w.Put(10, 100, {1, 2});
  v1::Command fetch;
  fetch.mutable_fetch()->set_fetch(20);
  fetch.mutable_fetch()->set_array(100);
  fetch.mutable_fetch()->set_has_byte_strides(true);
  fetch.mutable_fetch()->add_byte_strides(int64_t{1} << 33);
  w.Do(fetch);
  w.Settle();
  EXPECT_EQ(FromProto(w.connection.fetched.at(20).status()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(w.Read(100, 0), ElementsAre(1, 2));
}

TEST(GreedyClients, LargeArraysAreLaidOutOffTheStrand) {
  constexpr int kRows = 512, kColumns = 256;
  WorkerHarness w;
  std::vector<float> values(kRows * kColumns), by_column(kRows * kColumns);
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) values[r * kColumns + c] = by_column[c * kRows + r] = static_cast<float>(r * kColumns + c);
  }
  v1::Command put = w.PutCommand(10, 100, kRows * kColumns, {0});
  put.mutable_put()->clear_dims();
  put.mutable_put()->add_dims(kRows);
  put.mutable_put()->add_dims(kColumns);
  put.mutable_put()->set_payload_bytes(values.size() * sizeof(float));
  w.Do(put, FloatBytes(values));
  v1::Command fetch;
  fetch.mutable_fetch()->set_fetch(20);
  fetch.mutable_fetch()->set_array(100);
  fetch.mutable_fetch()->set_has_byte_strides(true);
  fetch.mutable_fetch()->add_byte_strides(sizeof(float));
  fetch.mutable_fetch()->add_byte_strides(kRows * sizeof(float));
  w.hold_copies = true;
  w.Do(fetch);
  w.Settle();
  EXPECT_FALSE(w.connection.fetched.contains(20)) << "the strand has laid the array out itself";
  w.hold_copies = false;
  w.Settle();
  EXPECT_EQ(Floats(w.connection.fetched_bytes[20]), by_column);
}

// Returns the programs in the order in which the host compiles them.
std::vector<uint64_t> CompileAll(WorkerHarness& w) {
  std::vector<uint64_t> order;
  while (w.compile_executor.RunOne()) {
    w.executor.RunUntilIdle();
    for (const auto& [id, unused] : w.connection.compiled) {
      if (std::find(order.begin(), order.end(), id) == order.end()) order.push_back(id);
    }
  }
  return order;
}

TEST(GreedyClients, SessionsTakeTurnsToHaveProgramsCompiled) {
  WorkerHarness w;
  for (uint64_t id : {1, 2, 3}) w.Compile(id, kAdd, {0, 1}, 1);
  w.Compile(4, kAdd, {0, 1}, 2);
  EXPECT_THAT(CompileAll(w), ElementsAre(1, 4, 2, 3));
}

TEST(GreedyClients, SessionsOfAUserHaveNoMoreTurnsThanOne) {
  WorkerHarness w;
  for (uint64_t id : {1, 2, 3}) w.Compile(id, kAdd, {0, 1}, id, "eve");
  for (uint64_t id : {4, 5}) w.Compile(id, kAdd, {0, 1}, 4, "ada");
  EXPECT_THAT(CompileAll(w), ElementsAre(4, 1, 5, 2, 3));
}

TEST(GreedyClients, ProgramsOfAClientThatHasGoneAreNotCompiled) {
  WorkerHarness w;
  w.Compile(1, kAdd, {0, 1}, 1);
  w.Compile(2, kAdd, {0, 1}, 2);
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_EQ(FromProto(w.connection.compiled.at(1).status()).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(FromProto(w.connection.compiled.at(2).status()).ok());
}

}  // namespace
}  // namespace pw::worker
