#include "pathways/dispatch/outbox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;
using ::pathways::v1::ToWorker;
using ::testing::ElementsAre;

struct Sent {
  HostId host;
  ToWorker batch;
  std::string payload;
};

std::vector<Sent> FlushAll(Outbox& outbox) {
  std::vector<Sent> sent;
  outbox.Flush([&](HostId host, std::string header, std::vector<Bytes> payload) {
    Sent s{host};
    EXPECT_TRUE(s.batch.ParseFromString(header));
    for (const Bytes& b : payload) s.payload += b.view();
    sent.push_back(std::move(s));
  });
  return sent;
}

Command Execute(uint64_t op) {
  Command c;
  c.mutable_execute()->set_op(op);
  return c;
}

TEST(OutboxTest, OneFrameForEachHostAndTurn) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  outbox.AddHost(HostId(1));
  outbox.Add(HostId(1), Execute(1), {Bytes::Copy("ab")});
  outbox.Add(HostId(0), Execute(2));
  outbox.Add(HostId(1), Execute(3), {Bytes::Copy("c")});
  const auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].host, HostId(1));
  EXPECT_EQ(sent[0].payload, "abc");
  ASSERT_EQ(sent[0].batch.commands_size(), 2);
  EXPECT_EQ(sent[0].batch.commands(1).execute().op(), 3u);
  EXPECT_EQ(outbox.counters(HostId(1)).of(Command::kExecute), 2u);
  EXPECT_EQ(outbox.counters(HostId(1)).frames, 1u);
  EXPECT_TRUE(FlushAll(outbox).empty());
}

TEST(OutboxTest, WhatWasSeenOfReportsRidesWithTheNextFrame) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  outbox.SetReportsSeen(HostId(0), 2);
  outbox.SetReportsSeen(HostId(0), 1);
  outbox.SetReportsSeen(HostId(1), 7);  // an unknown host
  EXPECT_TRUE(FlushAll(outbox).empty());
  outbox.Add(HostId(0), Execute(1));
  auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].batch.reports_seen(), 2u);
  outbox.Add(HostId(0), Execute(2));
  sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].batch.reports_seen(), 0u) << "nothing new";
  EXPECT_FALSE(outbox.TellReportsSeen());
}

TEST(OutboxTest, RidersGoWithFramesThatGoAnyhow) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  outbox.AddHost(HostId(1));
  int asked = 0;
  outbox.SetRiders([&asked](HostId host, ToWorker* frame) {
    ++asked;
    frame->add_settled()->set_session(10 + host.v);
  });
  EXPECT_TRUE(FlushAll(outbox).empty());
  EXPECT_EQ(asked, 0);
  outbox.Add(HostId(1), Execute(1));
  outbox.Add(HostId(1), Execute(2));
  const auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].batch.settled_size(), 1);
  EXPECT_EQ(sent[0].batch.settled(0).session(), 11u);
  EXPECT_EQ(asked, 1);
}

TEST(OutboxTest, WhatWasSeenOfReportsIsToldByItselfIfNothingElseIsSent) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  outbox.AddHost(HostId(1));
  outbox.SetReportsSeen(HostId(0), 2);
  outbox.SetReportsSeen(HostId(1), 5);
  EXPECT_TRUE(outbox.TellReportsSeen()) << "later";
  EXPECT_TRUE(FlushAll(outbox).empty());
  outbox.Add(HostId(1), Execute(1));
  EXPECT_EQ(FlushAll(outbox).size(), 1u);
  outbox.SetReportsSeen(HostId(1), 6);
  EXPECT_TRUE(outbox.TellReportsSeen());
  auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u) << "to the one that has not been told for the whole time";
  EXPECT_EQ(sent[0].host, HostId(0));
  EXPECT_EQ(sent[0].batch.reports_seen(), 2u);
  EXPECT_EQ(sent[0].batch.commands_size(), 0);
  EXPECT_TRUE(outbox.TellReportsSeen());
  sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].host, HostId(1));
  EXPECT_EQ(sent[0].batch.reports_seen(), 6u);
  EXPECT_FALSE(outbox.TellReportsSeen()) << "all have been told";
  EXPECT_TRUE(FlushAll(outbox).empty());
}

TEST(OutboxTest, ReleasesGoTogetherBehindTheRest) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  outbox.Add(HostId(0), Execute(1));
  outbox.Release(HostId(0), ArrayId(7));
  outbox.Add(HostId(0), Execute(2));
  outbox.Release(HostId(0), ArrayId(8));
  const auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].batch.commands_size(), 3);
  EXPECT_THAT(sent[0].batch.commands(2).release().arrays(), ElementsAre(7, 8));
  EXPECT_EQ(outbox.counters(HostId(0)).of(Command::kRelease), 1u);
}

TEST(OutboxTest, WhatIsReleasedBeforeAllCommandsOfABatchMakesRoomForThem) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  outbox.Release(HostId(0), ArrayId(7));
  outbox.Release(HostId(0), ArrayId(8));
  outbox.Add(HostId(0), Execute(1));
  const auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].batch.commands_size(), 2);
  EXPECT_THAT(sent[0].batch.commands(0).release().arrays(), ElementsAre(7, 8));
  EXPECT_EQ(sent[0].batch.commands(1).execute().op(), 1u);
}

TEST(OutboxTest, LargeBatchesAreClosedEarly) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  const Bytes big = std::move(AlignedBytes(3 << 20)).Freeze();
  for (int i = 0; i < 7; ++i) outbox.Add(HostId(0), Execute(i), {big});
  const auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 3u);
  uint64_t op = 0;
  for (const Sent& s : sent) {
    for (const Command& c : s.batch.commands()) EXPECT_EQ(c.execute().op(), op++);
  }
  EXPECT_EQ(op, 7u);
}

TEST(OutboxTest, WhatIsForALostHostIsDropped) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  outbox.Add(HostId(0), Execute(1));
  outbox.RemoveHost(HostId(0));
  outbox.Add(HostId(0), Execute(2));
  outbox.Release(HostId(0), ArrayId(1));
  EXPECT_TRUE(FlushAll(outbox).empty());
  EXPECT_EQ(outbox.counters(HostId(0)).frames, 0u);
}

TEST(OutboxTest, CommandsThatNameAnArrayOfARunWaitUntilItHasBeenSent) {
  Outbox outbox;
  outbox.AddHost(HostId(0));
  const auto execute = [](uint64_t op, uint64_t arg, uint64_t result) {
    Command command = Execute(op);
    command.mutable_execute()->add_args(arg);
    command.mutable_execute()->add_results(result);
    return command;
  };
  ArrayOrder::Ticket run = 0;
  outbox.order().Begin(SessionId(1), {{ArrayId(1)}, {ArrayId(2)}}, [&](ArrayOrder::Ticket ticket) { run = ticket; });
  outbox.Add(HostId(0), execute(10, 2, 3));
  outbox.Add(HostId(0), execute(20, 5, 6));  // names no array of the run
  outbox.Release(HostId(0), ArrayId(2));
  outbox.Release(HostId(0), ArrayId(5));
  Command chunk;
  chunk.mutable_chunk();
  outbox.Add(HostId(0), chunk);
  outbox.Add(HostId(0), execute(30, 3, 4));  // waits for a command that waits
  outbox.AddNow(HostId(0), execute(1, 1, 2));
  auto sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].batch.commands_size(), 4);
  EXPECT_EQ(sent[0].batch.commands(0).execute().op(), 20u);
  EXPECT_TRUE(sent[0].batch.commands(1).has_chunk());
  EXPECT_EQ(sent[0].batch.commands(2).execute().op(), 1u);
  EXPECT_THAT(sent[0].batch.commands(3).release().arrays(), ElementsAre(5));
  outbox.order().End(run);
  sent = FlushAll(outbox);
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].batch.commands_size(), 3);
  EXPECT_EQ(sent[0].batch.commands(0).execute().op(), 10u);
  EXPECT_EQ(sent[0].batch.commands(1).execute().op(), 30u);
  EXPECT_THAT(sent[0].batch.commands(2).release().arrays(), ElementsAre(2));
}

}  // namespace
}  // namespace pw::dispatch
