#include "pathways/controller/arrays/staging_admission.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/hosts/outgoing.h"
#include "rapidcheck.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A room whose admitted buffers are noted.
struct Noted {
  explicit Noted(int64_t limit) : room(limit) {}
  void Announce(Handle handle, int64_t bytes) {
    ASSERT_TRUE(room.Check(handle, bytes).ok());
    room.Announce(handle, bytes, [this, handle](absl::Status status) { (status.ok() ? admitted : failed).push_back(handle); });
  }
  std::vector<Handle> Admit(std::set<Handle> needed = {}) {
    admitted.clear();
    for (auto& callback : room.Admit(held, [&](Handle handle) { return needed.contains(handle); }))
      std::move(callback)(absl::OkStatus());
    return admitted;
  }

  StagingAdmission room;
  StagingAdmission::Held held;
  std::vector<Handle> admitted;
  std::vector<Handle> failed;
};

TEST(StagingAdmissionTest, WhatDoesNotFitWaitsItsTurn) {
  Noted t(10);
  t.Announce(1, 6);
  t.Announce(2, 5);
  t.Announce(3, 1);  // would fit, and does not overtake
  EXPECT_THAT(t.Admit(), ElementsAre(1));
  EXPECT_THAT(t.Admit(), IsEmpty());
  EXPECT_EQ(t.room.waiting(), 2u);
  EXPECT_EQ(t.room.held_back(), 2);
  EXPECT_TRUE(t.room.End(1));
  EXPECT_THAT(t.Admit(), ElementsAre(2, 3));
  EXPECT_EQ(t.room.receiving_bytes(), 6);
  EXPECT_EQ(t.room.held_back(), 2) << "each is counted once";
}

TEST(StagingAdmissionTest, WhatTheOwnerHoldsCounts) {
  Noted t(10);
  t.held = {.unasked = 4, .queued = 3};
  t.Announce(1, 4);
  EXPECT_THAT(t.Admit(), IsEmpty());
  t.held.queued = 2;
  EXPECT_THAT(t.Admit(), ElementsAre(1));
  EXPECT_EQ(t.room.peak_bytes(), 10);
}

TEST(StagingAdmissionTest, OneThatARequestWaitsForComesThroughWhenNothingElseMakesRoom) {
  Noted t(10);
  t.held = {.unasked = 9, .queued = 1};
  for (Handle h = 1; h <= 3; ++h) t.Announce(h, 4);
  EXPECT_THAT(t.Admit({2, 3}), IsEmpty()) << "what is queued will make room";
  t.held.queued = 0;
  EXPECT_THAT(t.Admit(), IsEmpty());
  EXPECT_TRUE(t.room.Stalled(t.held));
  EXPECT_THAT(t.Admit({2, 3}), ElementsAre(2));
  EXPECT_FALSE(t.room.Stalled(t.held));
  EXPECT_THAT(t.Admit({2, 3}), IsEmpty()) << "one at a time";
  t.room.End(2);
  EXPECT_THAT(t.Admit({2, 3}), ElementsAre(3));
  EXPECT_EQ(t.room.peak_bytes(), 13);
}

TEST(StagingAdmissionTest, OneOverTheLimitIsRefusedInWordsThatHelp) {
  StagingAdmission room(10);
  EXPECT_TRUE(room.Check(1, 10).ok());
  const absl::Status refused = room.Check(1, 11);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("11 bytes"));
  EXPECT_THAT(refused.message(), HasSubstr("at most 10"));
  EXPECT_THAT(refused.message(), HasSubstr("--staged-limit"));
  EXPECT_EQ(room.Check(1, -1).code(), absl::StatusCode::kInvalidArgument);
  room.Announce(1, 3, [](absl::Status) {});
  EXPECT_EQ(room.Check(1, 3).code(), absl::StatusCode::kAlreadyExists);
}

TEST(StagingAdmissionTest, WhatWaitsCanBeGivenUp) {
  Noted t(10);
  t.held.unasked = 10;
  for (Handle h = 1; h <= 3; ++h) t.Announce(h, 1);
  EXPECT_THAT(t.Admit(), IsEmpty());
  EXPECT_FALSE(t.room.End(1)) << "it waits";
  t.room.FailFirst()(absl::CancelledError(""));
  EXPECT_THAT(t.failed, ElementsAre(1));
  EXPECT_TRUE(t.room.Check(1, 1).ok());
  for (auto& callback : t.room.DropAll()) std::move(callback)(absl::CancelledError(""));
  EXPECT_THAT(t.failed, ElementsAre(1, 2, 3));
  EXPECT_EQ(t.room.waiting(), 0u);
}

// A client that sends requests and stores in any order, and hosts that take the queued bytes. No buffer is lost or waits for
// ever, and at most the limit and one buffer are held.
struct World {
  explicit World(int64_t limit) : t(limit) {}

  void Settle() {
    for (Handle handle : t.Admit(requested)) receiving.insert(handle);
    most = std::max(most, t.room.receiving_bytes() + t.held.unasked + t.held.queued);
  }
  void Request(Handle handle) {
    if (staged.erase(handle) > 0) {
      t.held.unasked -= bytes[handle];
      Queue(handle);
    } else {
      requested.insert(handle);
    }
    Settle();
  }
  void Arrive(Handle handle) {
    receiving.erase(handle);
    t.room.End(handle);
    if (requested.erase(handle) > 0) {
      Queue(handle);
    } else {
      staged.insert(handle);
      t.held.unasked += bytes[handle];
    }
    Settle();
  }
  void Queue(Handle handle) {
    queued.insert(handle);
    t.held.queued += bytes[handle];
  }
  void Leave(Handle handle) {
    queued.erase(handle);
    t.held.queued -= bytes[handle];
    ++left;
    Settle();
  }

  Noted t;
  std::map<Handle, int64_t> bytes;
  std::set<Handle> requested, receiving, staged, queued;
  int64_t most = 0;
  size_t left = 0;
};

TEST(StagingAdmissionProperty, NothingWaitsForEverAndLittleIsHeld) {
  EXPECT_TRUE(rc::check([] {
    const int64_t limit = *rc::gen::inRange<int64_t>(1, 30);
    const int count = *rc::gen::inRange(1, 30);
    World world(limit);
    std::vector<std::pair<bool, Handle>> client;  // true: its store begins; false: its request
    for (int i = 1; i <= count; ++i) {
      world.bytes[i] = *rc::gen::inRange<int64_t>(0, limit + 1);
      client.push_back({true, i});
      client.push_back({false, i});
    }
    for (size_t i = client.size(); i > 1; --i) std::swap(client[i - 1], client[*rc::gen::inRange<size_t>(0, i)]);
    while (world.left < static_cast<size_t>(count)) {
      std::vector<std::function<void()>> can;
      if (!client.empty()) {
        can.push_back([&] {
          const auto [store, handle] = client.back();
          client.pop_back();
          if (!store) return world.Request(handle);
          world.t.Announce(handle, world.bytes[handle]);
          world.Settle();
        });
      }
      if (!world.receiving.empty()) can.push_back([&] { world.Arrive(*world.receiving.begin()); });
      if (!world.queued.empty()) can.push_back([&] { world.Leave(*world.queued.begin()); });
      RC_ASSERT(!can.empty());  // else something waits for ever
      can[*rc::gen::inRange<size_t>(0, can.size())]();
    }
    RC_ASSERT(world.most <= 2 * limit);
    RC_ASSERT(world.t.room.peak_bytes() <= world.most);
    RC_ASSERT(world.t.room.waiting() == 0u);
    RC_ASSERT(world.t.room.receiving_bytes() == 0);
  }));
}

TEST(OutgoingTest, DataForSeveralHostsCountsOnceUntilTheLastHasIt) {
  Outgoing outgoing;
  const SessionId session(1);
  int drained = 0;
  outgoing.Watch(session, [&] { ++drained; });
  outgoing.Add(session, HostId(0), 7, 100);
  outgoing.Add(session, HostId(1), 7, 100);
  outgoing.Add(session, HostId(2), 8, 11);
  outgoing.Add(SessionId(2), HostId(2), 9, 1000);
  EXPECT_EQ(outgoing.bytes(session), 111);
  outgoing.Done(HostId(0), 7);
  outgoing.Done(HostId(0), 7);
  outgoing.Done(HostId(0), 999);
  EXPECT_EQ(outgoing.bytes(session), 111);
  EXPECT_EQ(drained, 0);
  outgoing.Done(HostId(1), 7);
  EXPECT_EQ(outgoing.bytes(session), 11);
  EXPECT_EQ(drained, 1);
  outgoing.RemoveHost(HostId(2));
  EXPECT_EQ(outgoing.bytes(session), 0);
  EXPECT_EQ(outgoing.bytes(SessionId(2)), 0);
  EXPECT_EQ(drained, 2);
}

TEST(OutgoingTest, ASessionThatEndsHearsNothingMore) {
  Outgoing outgoing;
  bool called = false;
  outgoing.Watch(SessionId(1), [&] { called = true; });
  outgoing.Add(SessionId(1), HostId(0), 7, 100);
  outgoing.RemoveSession(SessionId(1));
  outgoing.Done(HostId(0), 7);
  EXPECT_EQ(outgoing.bytes(SessionId(1)), 0);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace pw::controller
