#include "pathways/net/resumable/resumable_stream.h"

#include <deque>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::net {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCost = ResumableStream::kMessageCost;

ResumableStream::Message Text(std::string text) { return {std::move(text), {}}; }

std::vector<std::string> Texts(const ResumableStream::Batch& batch) {
  std::vector<std::string> texts;
  for (const auto* message : batch.messages) texts.push_back(message->header);
  return texts;
}

TEST(ResumableStreamTest, BatchesHaveConsecutiveNumbersAndABoundedSize) {
  ResumableStream stream;
  EXPECT_FALSE(stream.has_unsent());
  for (const char* text : {"aaaa", "bbbb", "cccc", ""}) stream.Append(Text(text));
  auto batch = stream.Take(kCost + 5);
  EXPECT_EQ(batch.first, 1);
  EXPECT_EQ(Texts(batch), (std::vector<std::string>{"aaaa", "bbbb"}));
  batch = stream.Take(1);
  EXPECT_EQ(batch.first, 3);
  EXPECT_EQ(Texts(batch), (std::vector<std::string>{"cccc"}));
  EXPECT_EQ(Texts(stream.Take(1)), (std::vector<std::string>{""}));
  EXPECT_FALSE(stream.has_unsent());
}

TEST(ResumableStreamTest, SmallMessagesFillAWindowToo) {
  ResumableStream stream;
  for (int i = 0; i < 10'000; ++i) stream.Append(Text("x"));
  size_t sent = 0;
  while (stream.in_flight_bytes() < 1000 * kCost) sent += stream.Take(100 * kCost).messages.size();
  EXPECT_LE(sent, 1100u);
  EXPECT_GE(sent, 990u);
}

TEST(ResumableStreamTest, AMessageIsKeptUntilItIsAcknowledged) {
  ResumableStream stream;
  stream.Append({"ab", {Bytes::FromString("xyz")}});
  stream.Append(Text("c"));
  EXPECT_EQ(stream.kept_bytes(), 2 * kCost + 6) << "a small message costs more than its bytes";
  EXPECT_EQ(stream.in_flight_bytes(), 0);
  stream.Take(10 * kCost);
  EXPECT_EQ(stream.in_flight_bytes(), 2 * kCost + 6);
  ASSERT_TRUE(stream.Acknowledge(1).ok());
  EXPECT_EQ(stream.kept_bytes(), kCost + 1);
  EXPECT_EQ(stream.in_flight_bytes(), kCost + 1);
  ASSERT_TRUE(stream.Acknowledge(1).ok()) << "an acknowledgement may be repeated";
  ASSERT_TRUE(stream.Acknowledge(2).ok());
  EXPECT_EQ(stream.kept_messages(), 0);
}

TEST(ResumableStreamTest, ANewConnectionSendsAgainWhatDidNotArrive) {
  ResumableStream stream;
  for (const char* text : {"a", "b", "c"}) stream.Append(Text(text));
  stream.Take(10 * kCost);
  ASSERT_TRUE(stream.Resume(1).ok());
  EXPECT_EQ(stream.kept_messages(), 2);
  EXPECT_EQ(stream.in_flight_bytes(), 0);
  auto batch = stream.Take(10 * kCost);
  EXPECT_EQ(batch.first, 2);
  EXPECT_EQ(stream.in_flight_bytes(), 2 * (kCost + 1));
  EXPECT_EQ(Texts(batch), (std::vector<std::string>{"b", "c"}));
}

TEST(ResumableStreamTest, WhatCannotBeIsRefusedAndChangesNothing) {
  ResumableStream stream;
  stream.Append(Text("a"));
  EXPECT_THAT(stream.Acknowledge(1).message(), HasSubstr("the last one that was sent is 0"));
  EXPECT_THAT(stream.Resume(2).message(), HasSubstr("has received message 2"));
  EXPECT_THAT(stream.Receive(2, 1).status().message(), HasSubstr("begins with message 2"));
  EXPECT_FALSE(stream.Receive(0, 5).ok());
  EXPECT_EQ(stream.received(), 0);
  stream.Take(10 * kCost);
  ASSERT_TRUE(stream.Acknowledge(1).ok());
  EXPECT_THAT(stream.Resume(0).message(), HasSubstr("messages 2 to 1 are kept")) << "message 1 is gone";
}

TEST(ResumableStreamTest, ABatchThatArrivesTwiceIsKnown) {
  ResumableStream stream;
  EXPECT_EQ(*stream.Receive(1, 3), 0);
  EXPECT_EQ(*stream.Receive(1, 3), 3);
  EXPECT_EQ(*stream.Receive(2, 4), 2);
  EXPECT_EQ(stream.received(), 5);
}

// Two ends, and connections that from a random moment on lose all data on its way.
TEST(ResumableStreamTest, EveryMessageArrivesOnceInOrderWhateverBreaks) {
  struct Frame {
    uint64_t first, ack;
    std::vector<std::string> texts;
  };
  struct End {
    ResumableStream stream;
    std::deque<Frame> incoming;
    std::vector<std::string> heard;
    int said = 0;
  };
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    End ends[2];
    constexpr int kMessages = 40;
    auto send = [&](int from) {
      Frame frame{0, ends[from].stream.received(), {}};
      if (ends[from].stream.has_unsent()) {
        auto batch = ends[from].stream.Take(random() % (4 * kCost));
        frame.first = batch.first;
        frame.texts = Texts(batch);
      }
      ends[1 - from].incoming.push_back(frame);
    };
    auto receive = [&](int at) {
      End& end = ends[at];
      if (end.incoming.empty()) return;
      const Frame frame = end.incoming.front();
      end.incoming.pop_front();
      ASSERT_TRUE(end.stream.Acknowledge(frame.ack).ok());
      if (frame.texts.empty()) return;
      auto known = end.stream.Receive(frame.first, frame.texts.size());
      ASSERT_TRUE(known.ok()) << known.status();
      end.heard.insert(end.heard.end(), frame.texts.begin() + *known, frame.texts.end());
    };
    auto done = [&] { return ends[0].heard.size() == kMessages && ends[1].heard.size() == kMessages; };
    for (int step = 0; !done(); ++step) {
      ASSERT_LT(step, 100000);
      const int end = random() % 2;
      switch (random() % 8) {
        case 0:
        case 1:
          if (ends[end].said < kMessages) ends[end].stream.Append(Text(std::to_string(ends[end].said++)));
          break;
        case 2:
        case 3:
        case 4:
          send(end);
          break;
        case 5:
        case 6:
          receive(end);
          break;
        default:
          ends[0].incoming.clear();
          ends[1].incoming.clear();
          ASSERT_TRUE(ends[0].stream.Resume(ends[1].stream.received()).ok());
          ASSERT_TRUE(ends[1].stream.Resume(ends[0].stream.received()).ok());
      }
    }
    for (const End& end : ends) {
      for (int i = 0; i < kMessages; ++i) ASSERT_EQ(end.heard[i], std::to_string(i));
    }
  }
}

}  // namespace
}  // namespace pw::net
