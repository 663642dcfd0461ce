#include "pathways/worker/store/outbox.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing_connection.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class OutboxTest : public ::testing::Test {
 protected:
  // Offers all eligible completions to the other path, which takes them or not.
  void Offer(bool taken) {
    outbox_.SetOtherWay([this, taken](v1::Done* done) {
      offered_.clear();
      for (uint64_t op : done->ok()) offered_.push_back(NumberOf(op));
      times_.assign(done->device_microseconds().begin(), done->device_microseconds().end());
      return taken;
    });
  }
  std::vector<uint64_t> Straight() const {
    std::vector<uint64_t> ops;
    for (const auto& [op, status] : connection_.done) ops.push_back(NumberOf(op));
    return ops;
  }

  RecordingConnection connection_;
  HadCommands had_;
  Outbox outbox_{&connection_, &had_};
  std::vector<uint64_t> offered_;
  std::vector<float> times_;
};

TEST_F(OutboxTest, PlainCompletionsOfManyHostsAreOfferedAnotherWay) {
  Offer(true);
  outbox_.Done(NamedOp(3), absl::OkStatus());
  outbox_.Done(NamedOp(5), absl::OkStatus(), 20);
  outbox_.Done(NamedOp(6), absl::OkStatus());  // a command of this host alone
  outbox_.Done(NamedOp(7), absl::InternalError("it failed"));
  outbox_.DoneTimed(NamedOp(9), 10, 10);
  outbox_.Poisoned(NamedOp(11), absl::InternalError("a part of it failed"), {0});
  outbox_.Done(NamedOp(11), absl::OkStatus());
  outbox_.Flush();
  EXPECT_THAT(offered_, ElementsAre(3, 5));
  EXPECT_THAT(times_, ElementsAre(0, 20));
  EXPECT_THAT(Straight(), UnorderedElementsAre(6, 7, 9, 11));
  EXPECT_EQ(connection_.frames, 1);
}

TEST_F(OutboxTest, WhatIsNotTakenComesStraight) {
  Offer(false);
  outbox_.Done(NamedOp(3), absl::OkStatus());
  outbox_.Done(NamedOp(4), absl::OkStatus());
  outbox_.Flush();
  EXPECT_THAT(offered_, ElementsAre(3));
  EXPECT_THAT(Straight(), UnorderedElementsAre(3, 4));
  EXPECT_EQ(connection_.frames, 1);
}

TEST_F(OutboxTest, WhatWasToBeOfferedComesStraightWhenTheWayIsGone) {
  Offer(true);
  outbox_.Done(NamedOp(3), absl::OkStatus());
  outbox_.SetOtherWay(nullptr);
  outbox_.Done(NamedOp(5), absl::OkStatus());
  outbox_.Flush();
  EXPECT_THAT(offered_, IsEmpty());
  EXPECT_THAT(Straight(), UnorderedElementsAre(3, 5));
}

TEST_F(OutboxTest, NothingIsSentIfAllWasTaken) {
  Offer(true);
  outbox_.Done(NamedOp(3), absl::OkStatus());
  outbox_.Flush();
  outbox_.Flush();
  EXPECT_EQ(connection_.frames, 0);
}

// As the speaker's path does.
TEST_F(OutboxTest, WhoTakesThemMayAddToTheSameFrame) {
  outbox_.SetOtherWay([this](v1::Done* done) {
    *outbox_.Add()->mutable_joined()->add_reports()->mutable_done() = *done;
    return true;
  });
  outbox_.Done(NamedOp(3), absl::OkStatus());
  outbox_.Done(NamedOp(4), absl::OkStatus());
  outbox_.Flush();
  EXPECT_EQ(connection_.frames, 1);
  ASSERT_EQ(connection_.joined.size(), 1u);
  EXPECT_THAT(connection_.joined[0].reports(0).done().ok(), ElementsAre(NamedOp(3)));
  EXPECT_THAT(Straight(), ElementsAre(4));
}

TEST_F(OutboxTest, AnOpThatHasEndedIsReportedAgainInTheSameWords) {
  connection_.repeats = true;
  for (uint64_t op : {2, 4, 6, 8, 10}) had_.Begin(HadCommands::Kind::kOp, NamedOp(op));
  outbox_.Done(NamedOp(2), absl::OkStatus(), 7);
  outbox_.Done(NamedOp(4), absl::InternalError("it failed"));
  outbox_.DoneTimed(NamedOp(6), 10, 11);
  outbox_.Poisoned(NamedOp(8), absl::DataLossError("a part of it is lost"), {1, 3});
  outbox_.Done(NamedOp(8), absl::OkStatus(), 12);
  outbox_.Flush();
  EXPECT_EQ(connection_.done.size(), 4u);
  std::vector<v1::Done> all;
  connection_.on_done = [&](const v1::Done& done) { all.push_back(done); };
  for (uint64_t op : {2, 4, 6, 8, 10, 12}) {  // 10 has not ended, 12 is not known
    outbox_.DoneAgain(NamedOp(op));
    outbox_.Flush();
  }
  ASSERT_EQ(all.size(), 4u);
  EXPECT_THAT(all[0].device_microseconds(), ElementsAre(7));
  EXPECT_EQ(all[1].failed(0).status().message(), "it failed");
  EXPECT_EQ(all[2].timed(0).device_microseconds(), 10);
  EXPECT_THAT(all[2].device_microseconds(), ElementsAre(11));
  EXPECT_THAT(all[3].poisoned(0).results(), ElementsAre(1, 3));
  EXPECT_THAT(all[3].ok(), ElementsAre(NamedOp(8)));
  EXPECT_THAT(all[3].device_microseconds(), ElementsAre(12));
}

}  // namespace
}  // namespace pw::worker
