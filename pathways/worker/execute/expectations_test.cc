#include "pathways/worker/execute/expectations.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Expect(WorkerHarness& w, uint64_t array) {
  v1::Command command;
  command.mutable_expect()->set_session(1);
  command.mutable_expect()->set_array(array);
  for (int d = 0; d < 2; ++d) {
    command.mutable_expect()->add_placements()->set_shard(d);
    command.mutable_expect()->mutable_placements(d)->set_local_device(d);
  }
  w.Do(command);
}

void Fulfil(WorkerHarness& w, uint64_t op, uint64_t array, uint64_t source, const std::string& error = "") {
  v1::Command command;
  auto& fulfil = *command.mutable_fulfil();
  fulfil.set_op(op);
  fulfil.set_session(1);
  fulfil.set_array(array);
  fulfil.set_source(source);
  if (!error.empty()) {
    fulfil.mutable_status()->set_code(static_cast<int>(absl::StatusCode::kAborted));
    fulfil.mutable_status()->set_message(error);
  }
  w.Do(command);
}

// A launch whose grant comes later, as for every launch that waits for data from outside the hosts.
void ExecuteLater(WorkerHarness& w, uint64_t op, uint64_t arg, uint64_t result, uint64_t gang) {
  v1::Command command;
  auto& execute = *command.mutable_execute();
  execute.set_op(op);
  execute.set_executable(1);
  execute.set_session(1);
  execute.add_args(arg);
  execute.add_results(result);
  execute.set_grant(gang);
  w.Do(command);
}

void Grant(WorkerHarness& w, uint64_t gang) {
  v1::Command command;
  command.mutable_grant()->add_gangs(gang);
  w.Do(command);
}

TEST(Expectations, WhatWaitsForAnExpectedArrayRunsWhenItIsFulfilled) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Put(10, 100, {1, 2, 3, 4});
  Expect(w, 500);
  ExecuteLater(w, 11, 500, 501, 7);
  w.Release(500);  // its readers still wait (XP-2)
  w.Settle();
  EXPECT_EQ(w.connection.done.count(11), 0u);
  w.Execute(12, 1, {100}, {200});  // the producer
  Fulfil(w, 13, 500, 200);
  w.Settle();
  EXPECT_TRUE(w.connection.done.at(13).ok());
  Grant(w, 7);
  EXPECT_THAT(w.Read(501, 1), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(w.worker->arrays(), 2) << "100 and 501";
}

// Both names of the source are released before it is ready.
TEST(Expectations, TwoArraysMayBecomeWhatOneSourceIs) {
  WorkerHarness w;
  w.Compile(1, kAdd);
  w.Put(10, 100, {1, 2, 3, 4});
  ExecuteLater(w, 11, 100, 200, 7);
  for (int d = 0; d < 2; ++d) w.Alias(21 + d, 201, d, 200, d);
  for (uint64_t expected : {500, 501}) {
    Expect(w, expected);
    Fulfil(w, 500 + expected, expected, expected - 300);
  }
  ExecuteLater(w, 12, 500, 600, 8);
  ExecuteLater(w, 13, 501, 601, 9);
  for (uint64_t gang : {7, 8, 9}) Grant(w, gang);
  for (uint64_t result : {600, 601}) EXPECT_THAT(w.Read(result, 1), ElementsAre(3, 4, 5, 6));
  for (uint64_t expected : {500, 501}) EXPECT_THAT(w.Read(expected, 0), ElementsAre(2, 3, 4, 5));
}

constexpr int64_t kBytes = 16;  // of an array on each device

TEST(Expectations, ASourceThatOthersUseIsSharedAndNobodyOverwritesIt) {
  WorkerHarness::Setup setup;
  setup.limits.device_memory_bytes = 2 * kBytes;
  WorkerHarness w(setup);
  w.Compile(1, kDonate);
  w.Put(10, 100, {1, 2, 3, 4});
  w.Settle();
  for (uint64_t array = 500; array < 510; ++array) {  // there is no room for this many copies
    Expect(w, array);
    for (int d = 0; d < 2; ++d) w.Alias(10 * array + d, 200, d, 100, d);
    Fulfil(w, 10 * array + 2, array, 200);
  }
  w.Settle();
  w.Execute(13, 1, {100}, {101});
  w.Settle();
  for (int d = 0; d < 2; ++d) {
    EXPECT_THAT(w.Read(509, d), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(w.Read(101, d), ElementsAre(2, 3, 4, 5));
  }
  w.Release(101);
  for (uint64_t array = 500; array < 509; ++array) w.Release(array);
  w.Execute(14, 1, {509}, {102});  // the last user: runs in place
  w.Settle();
  EXPECT_THAT(w.Read(102, 0), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(w.worker->arrays(), 1);
}

// SD-3: the command that was promised the buffer gets it; the others get a copy of the earlier contents.
TEST(Expectations, ASourceThatIsAboutToBeOverwrittenIsCopied) {
  WorkerHarness w;
  w.Compile(1, kDonate);
  w.Put(10, 100, {1, 2, 3, 4});
  w.Settle();
  w.Execute(11, 1, {100}, {101});  // 101 is pending while the devices do not run
  Expect(w, 500);
  for (int d = 0; d < 2; ++d) w.Alias(12 + d, 200, d, 101, d);
  Fulfil(w, 14, 500, 200);
  w.Execute(15, 1, {101}, {102});
  w.Settle();
  EXPECT_THAT(w.Read(500, 1), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(w.Read(102, 1), ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(w.worker->arrays(), 2) << "500 and 102";
}

TEST(Expectations, ItFailsWithItsSourceWithItsErrorAndWithItsSession) {
  WorkerHarness w;
  for (uint64_t array : {500, 501, 502}) Expect(w, array);
  Fulfil(w, 11, 500, 999);
  Fulfil(w, 12, 501, 0, "the function raised");
  w.Settle();
  EXPECT_EQ(w.connection.done.at(11).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(w.connection.done.at(12), absl::AbortedError("the function raised"));
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_EQ(w.worker->arrays(), 0);
  Fulfil(w, 13, 502, 0);  // too late, and harmless
  w.Settle();
  EXPECT_TRUE(w.connection.done.at(13).ok());
}

// XP-3: the second computation finds no room.
TEST(Expectations, WhoWaitsForMemoryWaitsForThemOnlyOnceTheyAreUnderWay) {
  for (bool under_way : {false, true}) {
    WorkerHarness::Setup setup;
    setup.limits.device_memory_bytes = 40;  // two arrays of 16 bytes
    WorkerHarness w(setup);
    w.Compile(1, kAdd);
    w.Put(10, 100, {1, 2, 3, 4});
    Expect(w, 500);
    w.Execute(11, 1, {100}, {101});
    w.Settle();
    if (under_way) {
      v1::Command begun;
      begun.mutable_expect()->set_array(500);
      begun.mutable_expect()->set_under_way(true);
      w.Do(begun);
    }
    w.Execute(12, 1, {101}, {102});
    w.Settle();
    if (!under_way) {
      EXPECT_EQ(w.connection.done.at(12).code(), absl::StatusCode::kResourceExhausted);
      continue;
    }
    EXPECT_EQ(w.connection.done.count(12), 0u);
    w.Release(100);
    Fulfil(w, 13, 500, 0, "the function raised");
    w.Settle();
    EXPECT_TRUE(w.connection.done.at(12).ok());
  }
}

}  // namespace
}  // namespace pw::worker
