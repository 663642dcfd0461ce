// The limit on the bytes that one client may have in the controller, tested at the session.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;

struct StoreTest : public ::testing::Test {
  explicit StoreTest(int64_t limit = 10) : t(2, 1, Limited(limit)) { t.Open(); }
  static ClusterOptions Limited(int64_t limit) {
    ClusterOptions options;
    options.limits.staged_bytes = limit;
    return options;
  }
  void Announce(Handle handle, int64_t bytes) {
    t.session->AnnounceHostBuffer(handle, bytes, [this, handle](absl::Status status) {
      if (status.ok()) return admitted.push_back(handle);
      refusals.push_back(status);
    });
  }
  // Runs all tasks. Returns the buffers that were admitted since the last call.
  std::vector<Handle> Admitted() {
    t.Run();
    return std::exchange(admitted, {});
  }
  absl::Status Send(Handle handle, int64_t bytes) {
    return t.session->StoreHostBuffer(handle, Bytes::FromString(std::string(bytes, 'x')));
  }
  absl::Status Make(Handle handle, int64_t bytes, int device = 0) {
    return t.session->MakeArray(handle, t.Single(device, {bytes}), {{handle, {buffers::DType::kU8, {bytes}}, {0}}});
  }
  std::string Status() {
    return *t.Await<std::string>([&](auto done) { t.cluster->GetStatus(std::move(done)); });
  }

  TestCluster t;
  std::vector<Handle> admitted;
  std::vector<absl::Status> refusals;
};

TEST_F(StoreTest, ARequestForWhatHasComeMakesRoom) {
  Announce(1, 8);
  Announce(2, 8);
  EXPECT_THAT(Admitted(), ElementsAre(1));
  ASSERT_TRUE(Send(1, 8).ok());
  EXPECT_THAT(Admitted(), IsEmpty());
  EXPECT_THAT(Status(), HasSubstr("\"stores_waiting\":1"));
  ASSERT_TRUE(Make(1, 8).ok());
  EXPECT_THAT(Admitted(), ElementsAre(2));
  ASSERT_TRUE(Send(2, 8).ok());
  ASSERT_TRUE(Make(2, 8).ok());
  EXPECT_TRUE(t.Ready({1, 2}).ok());
  const std::string status = Status();
  EXPECT_THAT(status, HasSubstr("\"staged_bytes\":0"));
  EXPECT_THAT(status, HasSubstr("\"staged_peak_bytes\":8"));
  EXPECT_THAT(status, HasSubstr("\"stores_held_back\":1"));
}

TEST_F(StoreTest, OneThatARequestNeedsComesThroughThoughTheRoomIsFull) {
  Announce(1, 10);
  EXPECT_THAT(Admitted(), ElementsAre(1));
  ASSERT_TRUE(Send(1, 10).ok());
  Announce(2, 10);
  Announce(3, 10);
  EXPECT_THAT(Admitted(), IsEmpty());
  ASSERT_TRUE(Make(3, 10).ok());
  EXPECT_THAT(Admitted(), ElementsAre(3)) << "its request has come before it";
  ASSERT_TRUE(Send(3, 10).ok());
  EXPECT_TRUE(t.Ready({3}).ok());
  EXPECT_THAT(Admitted(), IsEmpty()) << "1 still waits for its request";
  ASSERT_TRUE(t.session->DeleteHostBuffer(1).ok());
  EXPECT_THAT(Admitted(), ElementsAre(2));
}

TEST_F(StoreTest, OneThatDoesNotComeGivesItsRoomBack) {
  Announce(1, 10);
  Announce(2, 10);
  EXPECT_THAT(Admitted(), ElementsAre(1));
  t.session->ForgetHostBuffer(1);
  EXPECT_THAT(Admitted(), ElementsAre(2));
  t.session->ForgetHostBuffer(77);  // never announced
  EXPECT_TRUE(refusals.empty());
}

TEST_F(StoreTest, RefusalsSayWhy) {
  Announce(1, 11);
  Announce(0, 1);
  Announce(2, 3);
  Announce(2, 3);
  EXPECT_THAT(Admitted(), ElementsAre(2));
  ASSERT_EQ(refusals.size(), 3u);
  EXPECT_EQ(refusals[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refusals[0].message(), HasSubstr("--staged-limit"));
  EXPECT_EQ(refusals[1].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refusals[2].code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(Send(2, 3).ok());
  Announce(2, 3);
  t.Run();
  EXPECT_EQ(refusals.back().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(StoreTest, WhatWaitsIsAnsweredWhenTheSessionEnds) {
  Announce(1, 10);
  Announce(2, 10);
  EXPECT_THAT(Admitted(), ElementsAre(1));
  t.session = nullptr;
  t.Run();
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].code(), absl::StatusCode::kCancelled);
}

TEST_F(StoreTest, ABufferThatCannotBeReceivedMakesItsArrayTheError) {
  const absl::Status error = absl::ResourceExhaustedError("too large");
  t.session->FailHostBuffer(1, error);  // before the request
  EXPECT_EQ(Make(1, 100), error);
  ASSERT_TRUE(Make(2, 100).ok());
  ASSERT_TRUE(t.session->Copy({3}, {2}, t.Devices(1, 1), std::nullopt, CopySemantics::kReuseInput).ok());
  t.session->FailHostBuffer(2, error);  // after it
  for (Handle handle : {1, 2, 3}) {
    EXPECT_EQ(t.Ready({handle}).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(t.Ready({handle}).message(), HasSubstr("too large"));
  }
  EXPECT_EQ(t.cluster->fabric().ops().size(), 0u);
  EXPECT_EQ(t.session->DeleteHostBuffer(1).code(), absl::StatusCode::kNotFound);
}

// Stock clients do not wait for a store before they send its request; one that did would wait for itself.
TEST_F(StoreTest, AClientThatSendsNoRequestIsToldSo) {
  Announce(1, 10);
  Announce(2, 10);
  Announce(3, 10);
  EXPECT_THAT(Admitted(), ElementsAre(1));
  t.timers.Advance(absl::Minutes(5));
  EXPECT_TRUE(refusals.empty()) << "1 is on its way";
  ASSERT_TRUE(Send(1, 10).ok());
  t.timers.Advance(absl::Seconds(50));
  EXPECT_TRUE(refusals.empty());
  t.timers.Advance(absl::Seconds(20));
  ASSERT_FALSE(refusals.empty());
  EXPECT_EQ(refusals[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refusals[0].message(), HasSubstr("no request for them"));
  EXPECT_THAT(refusals[0].message(), HasSubstr("--staged-limit"));
}

// Bytes that wait for room on a host's bulk lane count as held.
struct SlowHostTest : public StoreTest {
  SlowHostTest() : StoreTest(60 * kMiB) {}
  void Put(Handle handle, int64_t bytes, int device = 0) {
    ASSERT_TRUE(Make(handle, bytes, device).ok());
    Announce(handle, bytes);
  }
};

TEST_F(SlowHostTest, WhatIsQueuedForAHostHoldsBackWhatFollows) {
  // Tasks run inside Admitted only: between its calls the host takes no bytes.
  Put(1, 60 * kMiB);
  Put(2, 60 * kMiB);
  Put(3, 1);
  EXPECT_THAT(Admitted(), ElementsAre(1));
  ASSERT_TRUE(Send(1, 60 * kMiB).ok());
  EXPECT_GT(t.cluster->fabric().outgoing().bytes(t.session->id()), 0);
  EXPECT_TRUE(admitted.empty());
  EXPECT_THAT(Admitted(), ElementsAre(2)) << "the host took 1";
  ASSERT_TRUE(Send(2, 60 * kMiB).ok());
  EXPECT_THAT(Admitted(), ElementsAre(3));
  ASSERT_TRUE(Send(3, 1).ok());
  EXPECT_TRUE(t.Ready({1, 2, 3}).ok());
  EXPECT_EQ(t.cluster->fabric().outgoing().bytes(t.session->id()), 0);
  EXPECT_THAT(Status(), HasSubstr(absl::StrCat("\"staged_peak_bytes\":", 60 * kMiB)));
}

TEST_F(SlowHostTest, AHostThatIsLostHoldsNothingBack) {
  Put(1, 60 * kMiB);
  Put(2, 60 * kMiB, 1);
  EXPECT_THAT(Admitted(), ElementsAre(1));
  ASSERT_TRUE(Send(1, 60 * kMiB).ok());
  t.workers[0]->Die();
  EXPECT_THAT(Admitted(), ElementsAre(2));
  ASSERT_TRUE(Send(2, 60 * kMiB).ok());
  EXPECT_TRUE(t.Ready({2}).ok());
  EXPECT_FALSE(t.Ready({1}).ok());
}

}  // namespace
}  // namespace pw::controller
