// Tests that a user's arrays on a device stay within the quota, and that a user at the quota keeps no other user waiting.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHeld[] = "args=1 outputs=1 dims=4 hold=1";

// Ada has the sessions 1 and 2, Bob session 3. Each array has 16 bytes on each of two devices.
struct TwoUsers : WorkerHarness {
  explicit TwoUsers(int64_t adas_bytes = 32, int64_t device_bytes = 0, bool spill = false) : WorkerHarness(Limited(device_bytes)) {
    config_.set_spill(spill);
    SetQuota(adas_bytes);
  }
  static Setup Limited(int64_t device_bytes) {
    Setup setup;
    setup.limits.device_memory_bytes = device_bytes;
    return setup;
  }
  void SetQuota(int64_t bytes, const std::vector<uint64_t>& sessions = {1, 2}) {
    config_.clear_accounts();
    auto* ada = config_.add_accounts();
    ada->set_user("ada");
    for (uint64_t session : sessions) ada->add_sessions(session);
    ada->set_device_bytes(bytes);
    Configure(config_);
    Settle();
  }
  void PutFour(uint64_t array, uint64_t session) {
    Put(1000 + array, array, {1, 2, 3, 4}, {0, 1}, session);
    Settle();
  }
  bool HasPut(uint64_t array) { return connection.done.contains(1000 + array) && connection.done.at(1000 + array).ok(); }
  int64_t Used() { return Memory().devices(0).used_bytes(); }
  v1::HealthReport Health() { return worker->Health(); }

 private:
  v1::HostConfig config_;
};

TEST(MemoryQuota, MoreThanTheUserMayHaveIsRefusedInWordsThatSayWhoseAndWhere) {
  TwoUsers w;
  w.PutFour(100, 1);
  w.PutFour(101, 2);
  w.PutFour(102, 1);
  const absl::Status refused = w.connection.done.at(1102);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("user 'ada' has used up the memory quota on local device 0 of host 1"),
                    HasSubstr("16 B more are needed, 32 B of 32 B are in use (session 2 holds 16 B, session 1 holds 16 B)"),
                    HasSubstr("pathways quota set --device-memory")));
  w.PutFour(103, 3);
  EXPECT_TRUE(w.HasPut(103)) << "Bob has no limit";
  w.Release(101);
  w.PutFour(104, 1);
  EXPECT_TRUE(w.HasPut(104));
  ASSERT_EQ(w.Health().users_size(), 1);
  EXPECT_EQ(w.Health().users(0).user(), "ada");
  EXPECT_EQ(w.Health().users(0).device_bytes(), 32);
}

TEST(MemoryQuota, AComputationWaitsForTheUsersOwnWorkOnTheDevices) {
  TwoUsers w;
  w.Compile(1, kHeld);
  w.Compile(2, kAdd);
  w.PutFour(100, 1);
  w.Execute(11, 1, {100}, {101});
  w.Release(100);
  w.Execute(12, 2, {101}, {102});  // fits when the first has ended with its argument
  w.Settle();
  EXPECT_FALSE(w.connection.done.contains(12));
  ASSERT_EQ(w.Health().quota_waits_size(), 1);
  EXPECT_EQ(w.Health().quota_waits(0).user(), "ada");
  EXPECT_EQ(w.Health().quota_waits(0).session(), 1u);
  EXPECT_EQ(w.Health().quota_waits(0).position(), 1u);
  EXPECT_THAT(w.Health().quota_waits(0).why(), HasSubstr("32 B of 32 B are in use"));
  w.runtime.ReleaseHeld();
  w.Settle();
  EXPECT_EQ(w.connection.done.at(12), absl::OkStatus());
  EXPECT_EQ(w.Health().quota_waits_size(), 0);
  EXPECT_THAT(w.Read(102, 0), ElementsAre(3, 4, 5, 6));
}

TEST(MemoryQuota, AComputationOfAUserAtTheQuotaKeepsNobodyWaiting) {
  TwoUsers w;
  w.Compile(1, kHeld, {0, 1}, 3);
  w.Compile(2, kAdd, {0, 1}, 1);
  w.Compile(3, kAdd, {0, 1}, 3);
  w.PutFour(100, 1);
  w.PutFour(101, 2);
  w.PutFour(102, 3);
  w.Execute(11, 1, {102}, {103}, 3);  // Bob's work, which goes on
  w.Execute(12, 2, {100}, {104}, 1);  // Ada's, for which nothing will be freed
  w.Execute(13, 3, {102}, {105}, 3);  // behind it
  w.Settle();
  EXPECT_EQ(w.connection.done.at(12).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(w.connection.done.at(13), absl::OkStatus());
  EXPECT_FALSE(w.connection.done.contains(11));
  w.runtime.ReleaseHeld();
}

TEST(MemoryQuota, APutWaitsAsItDoesForAFullDevice) {
  TwoUsers w;
  w.Compile(1, kHeld, {0, 1}, 3);
  w.PutFour(100, 1);
  w.PutFour(101, 2);
  w.PutFour(102, 3);
  w.Execute(11, 1, {102}, {103}, 3);  // something goes on
  w.PutFour(104, 1);
  w.PutFour(105, 2);
  EXPECT_FALSE(w.connection.done.contains(1104));
  // Each of the two puts waits for two devices.
  ASSERT_EQ(w.Health().quota_waits_size(), 4);
  w.PutFour(107, 1);
  EXPECT_EQ(w.connection.done.at(1107).code(), absl::StatusCode::kResourceExhausted) << "as much waits as the quota";
  EXPECT_EQ(w.Health().quota_waits(3).position(), 4u);
  w.PutFour(106, 3);
  EXPECT_TRUE(w.HasPut(106)) << "Bob does not wait for Ada";
  w.Release(100);
  w.Settle();
  EXPECT_TRUE(w.HasPut(104));
  EXPECT_FALSE(w.connection.done.contains(1105));
  w.SetQuota(48);
  EXPECT_TRUE(w.HasPut(105)) << "a larger quota is in force at once";
  w.runtime.ReleaseHeld();
}

TEST(MemoryQuota, WhatNeedsNoMoreThanBeforeGoesOnUnderASmallerQuota) {
  TwoUsers w;
  w.Compile(1, kDonate);
  w.Compile(2, kAdd);
  w.PutFour(100, 1);
  w.SetQuota(1);
  w.Execute(11, 1, {100}, {101});
  w.Execute(12, 2, {101}, {102});
  w.Settle();
  EXPECT_EQ(w.connection.done.at(11), absl::OkStatus());
  EXPECT_EQ(w.connection.done.at(12).code(), absl::StatusCode::kResourceExhausted);
}

TEST(MemoryQuota, ContentsThatWereMovedOutCountForTheQuota) {
  TwoUsers w(32, 50, /*spill=*/true);
  w.Compile(1, kAdd);
  w.PutFour(100, 1);
  w.PutFour(101, 1);
  for (uint64_t array : {102, 103, 104}) w.PutFour(array, 3);
  EXPECT_EQ(w.worker->spill().moved_out(), 4u) << "Ada's arrays have made room, on two devices";
  EXPECT_EQ(w.Health().users(0).device_bytes(), 32);
  w.PutFour(105, 1);
  EXPECT_EQ(w.connection.done.at(1105).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(w.connection.done.at(1105).message()), HasSubstr("user 'ada'"));
  w.SetQuota(48);
  w.Execute(11, 1, {100}, {106});  // brings its argument back, for which Ada is charged already
  w.Settle();
  EXPECT_EQ(w.connection.done.at(11), absl::OkStatus());
  EXPECT_EQ(w.Health().users(0).device_bytes(), 48);
  for (uint64_t array : {100, 101, 106}) w.Release(array);
  w.Settle();
  EXPECT_EQ(w.Health().users(0).device_bytes(), 0);
}

TEST(MemoryQuota, CopiesForAUsersClientsFitTheQuotaOfHostMemory) {
  WorkerHarness w;
  v1::HostConfig config;
  config.add_accounts()->set_user("ada");
  config.mutable_accounts(0)->add_sessions(1);
  config.mutable_accounts(0)->set_host_bytes(6 << 20);
  w.Configure(config);
  w.Put(10, 100, std::vector<float>(1 << 20, 1.0f));
  w.Settle();
  w.connection.bulk_open = false;
  w.Fetch(20, 100, 0);
  w.Fetch(21, 100, 1);
  w.Settle();
  EXPECT_TRUE(w.connection.fetched.contains(20));
  EXPECT_FALSE(w.connection.fetched.contains(21));
  EXPECT_EQ(w.worker->Health().users(0).host_bytes(), 4 << 20);
  w.connection.bulk_open = true;
  w.strand.Post([&] { w.worker->BulkWritable(); });
  w.Settle();
  EXPECT_EQ(w.connection.fetched_bytes[21].size(), size_t{4} << 20);
  EXPECT_EQ(w.worker->Health().users(0).host_bytes(), 0);
  config.mutable_accounts(0)->set_host_bytes(1 << 20);
  w.Configure(config);
  w.Fetch(22, 100, 0);
  w.Settle();
  const absl::Status refused = FromProto(w.connection.fetched.at(22).status());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("pathways quota set --host-memory"));
}

TEST(MemoryQuota, WhatAnEndedSessionStillHoldsCounts) {
  TwoUsers w;
  w.Compile(1, kHeld);
  w.PutFour(100, 1);
  w.Execute(11, 1, {100}, {101});
  w.Settle();
  w.ReleaseOwner(1);
  w.SetQuota(32, {2});
  EXPECT_EQ(w.Health().users(0).device_bytes(), 32) << "the devices are still at work for it";
  w.runtime.ReleaseHeld();
  w.Settle();
  EXPECT_EQ(w.Health().users(0).device_bytes(), 0);
  w.SetQuota(32, {2});
  w.PutFour(102, 2);
  EXPECT_TRUE(w.HasPut(102));
}

}  // namespace
}  // namespace pw::worker
