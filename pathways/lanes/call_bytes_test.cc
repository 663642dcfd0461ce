#include "pathways/lanes/call_bytes.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/lanes/testing.h"

namespace pw::lanes {
namespace {

using ::testing::HasSubstr;

::pathways::v1::LaneMessage CallMessage(uint64_t call) {
  ::pathways::v1::LaneMessage message;
  message.mutable_call()->set_call(call);
  return message;
}

std::string Pattern(size_t size) {
  std::string text(size, 0);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + i / 7) % 256);
  return text;
}

class CallBytesTest : public ::testing::Test {
 protected:
  CallBytesTest() {
    pair_.client->Open(std::make_shared<net::ReceiveBuffers>());
    pair_.worker->Open(std::make_shared<net::ReceiveBuffers>());
  }
  LanePair pair_;
  BlockCache blocks_;
};

TEST_F(CallBytesTest, AFewBytesTravelInTheMessage) {
  CallBytes sent;
  sent.Send(1, CallMessage(1), Bytes::Copy("operands"), pair_.worker.get());
  pair_.Run();
  ASSERT_EQ(pair_.at_client.messages.size(), 1);
  EXPECT_EQ(pair_.at_client.messages[0].call().call(), 1);
  EXPECT_EQ(pair_.at_client.payloads[0], "operands");
}

TEST_F(CallBytesTest, ManyBytesFollowTheirMessage) {
  const std::string text = Pattern(2 * kPartBytes + 5);
  CallBytes sent, received;
  sent.Send(7, CallMessage(7), Bytes::Copy(text), pair_.worker.get());
  pair_.Run();
  ASSERT_EQ(pair_.at_client.messages.size(), 4);
  EXPECT_EQ(pair_.at_client.messages[0].call().call(), 7);
  EXPECT_EQ(pair_.at_client.payloads[0], "");
  ASSERT_TRUE(received.Expect(7, text.size(), blocks_).ok());
  for (int i = 1; i < 4; ++i) {
    auto all = received.Add(pair_.at_client.messages[i].bytes(), Bytes::Copy(pair_.at_client.payloads[i]));
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(all->has_value(), i == 3);
    if (all->has_value()) {
      EXPECT_EQ((*all)->view(), text);
    }
  }
}

TEST_F(CallBytesTest, WhatIsKeptGoesOutAgainAndWhatArrivedIsForgotten) {
  CallBytes sent;
  sent.Send(1, CallMessage(1), Bytes::Copy("first"), nullptr);
  sent.Send(2, CallMessage(2), Bytes::Copy(Pattern(CallBytes::kInMessage + 1)), nullptr);
  sent.Send(3, CallMessage(3), Bytes(), nullptr);
  sent.Forget(1);
  EXPECT_FALSE(sent.keeps(1));
  EXPECT_TRUE(sent.keeps(2));
  sent.Resume(*pair_.worker);
  pair_.Run();
  ASSERT_EQ(pair_.at_client.messages.size(), 3);
  EXPECT_EQ(pair_.at_client.messages[0].call().call(), 2);
  EXPECT_EQ(pair_.at_client.messages[1].bytes().call(), 2);
  EXPECT_EQ(pair_.at_client.messages[2].call().call(), 3);
}

TEST_F(CallBytesTest, PartsThatNobodyExpectsAreIgnoredAndWrongOnesRefused) {
  CallBytes received;
  ::pathways::v1::LaneBytes part;
  part.set_call(4);
  part.set_total_bytes(8);
  auto none = received.Add(part, Bytes::Copy("1234"));
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
  ASSERT_TRUE(received.Expect(4, 8, blocks_).ok());
  part.set_offset(4);
  EXPECT_EQ(received.Add(part, Bytes::Copy("1234")).status().code(), absl::StatusCode::kInvalidArgument);
  received.LaneGone();
  part.set_offset(0);
  EXPECT_FALSE(received.Add(part, Bytes::Copy("1234"))->has_value()) << "the parts of a broken lane do not count";
}

TEST_F(CallBytesTest, PartsAreJoinedAndCutAgain) {
  const Bytes alone = Bytes::Copy("alone");
  EXPECT_EQ(Join({Bytes(), alone, Bytes()})->data(), alone.data()) << "one part is not copied";
  const Bytes joined = *Join({Bytes::Copy("ab"), Bytes(), Bytes::Copy("cde")});
  const auto pieces = Cut(joined, {2, 0, 3});
  ASSERT_TRUE(pieces.ok());
  EXPECT_EQ((*pieces)[0].view(), "ab");
  EXPECT_TRUE((*pieces)[1].empty());
  EXPECT_EQ((*pieces)[2].view(), "cde");
  EXPECT_FALSE(Cut(joined, {2, 4}).ok());
  EXPECT_FALSE(Cut(joined, {2}).ok());
}

TEST_F(CallBytesTest, ACallCarriesSoMuchAndNoMore) {
  EXPECT_EQ(SumOfCall({kCallBytes - 1, 1}), kCallBytes);
  EXPECT_EQ(SumOfCall({kCallBytes, 1}), std::nullopt);
  EXPECT_EQ(SumOfCall({UINT64_MAX, 2}), std::nullopt);
  const char byte = 0;
  const Bytes half(nullptr, &byte, kCallBytes / 2 + 1);  // never read
  const absl::Status refused = Join({half, half}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("2048 MiB"));
}

}  // namespace
}  // namespace pw::lanes
