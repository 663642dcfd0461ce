#include "pathways/dataflow/batching.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"

namespace pw::dataflow {
namespace {

using testing::ElementsAre;

class BatcherTest : public testing::Test {
 protected:
  struct Left {
    uint32_t host;
    bool critical;
    size_t messages;
    friend bool operator==(const Left&, const Left&) = default;
  };

  void Make(const BatchingKnobs& knobs) {
    batcher_.emplace(knobs, &clock_, [this](HostId to, bool critical, FrameBuilder frame) {
      left_.push_back({to.v, critical, frame.messages()});
    });
  }
  void Add(uint32_t host, bool critical, size_t bytes = 0) {
    TupleMessage message{RunId{HostId(0), 1}, EdgeId(0), ++sequence_, 0, {}};
    message.tuple.data = Bytes::FromString(std::string(bytes, 'x'));
    batcher_->Add(HostId(host), critical, message);
  }
  void Wait(absl::Duration time) {
    clock_.now += time;
    batcher_->FlushDue();
  }

  ManualClock clock_;
  std::optional<Batcher> batcher_;
  std::vector<Left> left_;
  uint64_t sequence_ = 0;
};

TEST_F(BatcherTest, CriticalMessagesLeaveAtOnceAndAlone) {
  Make({});
  Add(1, false);
  Add(1, true);
  Add(2, true);
  Add(1, true);
  batcher_->FlushCritical();
  EXPECT_THAT(left_, ElementsAre(Left{1, true, 2}, Left{2, true, 1}));
  EXPECT_EQ(batcher_->counters().critical_messages, 3u);
  EXPECT_EQ(batcher_->counters().critical_frames, 2u);
  EXPECT_EQ(batcher_->counters().coalesced_frames, 0u);
}

TEST_F(BatcherTest, OthersWaitForEachOtherUpToTheDelay) {
  Make({.max_delay = absl::Microseconds(100)});
  EXPECT_EQ(batcher_->NextDue(), std::nullopt);
  const absl::Time start = clock_.now;
  Add(1, false);
  Wait(absl::Microseconds(60));
  Add(1, false);
  Add(2, false);
  EXPECT_EQ(batcher_->NextDue(), start + absl::Microseconds(100));
  Wait(absl::Microseconds(39));
  EXPECT_THAT(left_, ElementsAre());
  Wait(absl::Microseconds(1));
  EXPECT_THAT(left_, ElementsAre(Left{1, false, 2}));
  EXPECT_EQ(batcher_->NextDue(), start + absl::Microseconds(160));
  Wait(absl::Microseconds(60));
  EXPECT_THAT(left_, ElementsAre(Left{1, false, 2}, Left{2, false, 1}));
  EXPECT_EQ(batcher_->counters().due, 2u);
}

TEST_F(BatcherTest, AFullFrameDoesNotWait) {
  Make({.max_bytes = 1000, .max_messages = 3});
  for (int i = 0; i < 7; ++i) Add(1, false);
  EXPECT_THAT(left_, ElementsAre(Left{1, false, 3}, Left{1, false, 3}));
  Add(1, false, 1000);
  EXPECT_EQ(left_.back(), (Left{1, false, 2}));
  EXPECT_EQ(batcher_->counters().full, 3u);
  EXPECT_EQ(batcher_->NextDue(), std::nullopt);
  EXPECT_EQ(batcher_->counters().coalesced_messages, 8u);
  EXPECT_EQ(batcher_->counters().coalesced_frames, 3u);
}

// When the first frame is full and leaves, its deadline must not apply to the next frame.
TEST_F(BatcherTest, ADeadlineBelongsToItsFrame) {
  Make({.max_delay = absl::Microseconds(100), .max_messages = 2});
  Add(1, false);
  Wait(absl::Microseconds(90));
  Add(1, false);
  Add(1, false);
  Wait(absl::Microseconds(10));
  EXPECT_THAT(left_, ElementsAre(Left{1, false, 2}));
  Wait(absl::Microseconds(90));
  EXPECT_THAT(left_, ElementsAre(Left{1, false, 2}, Left{1, false, 1}));
}

TEST_F(BatcherTest, WhatWaitsForAHostThatIsGoneIsDropped) {
  Make({});
  Add(1, false);
  Add(1, true);
  EXPECT_GT(batcher_->waiting_bytes(HostId(1), false), 0u);
  batcher_->Drop(HostId(1));
  batcher_->FlushCritical();
  EXPECT_EQ(batcher_->NextDue(), std::nullopt);
  EXPECT_THAT(left_, ElementsAre());
  EXPECT_EQ(batcher_->waiting_bytes(HostId(1), false), 0u);
}

}  // namespace
}  // namespace pw::dataflow
