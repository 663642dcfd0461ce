#include "pathways/lanes/sender.h"

#include <string>

#include "gtest/gtest.h"
#include "pathways/lanes/testing.h"

namespace pw::lanes {
namespace {

TEST(SenderTest, BytesLeaveInPartsOneNameAfterAnother) {
  LanePair pair;
  pair.worker->Open(std::make_shared<net::ReceiveBuffers>());
  Sender sender(Sender::Names::kBuffers);
  const std::string text(kPartBytes + 3, 'x');
  sender.Add(1, Bytes::Copy(text), 0);
  sender.Add(2, Bytes::Copy("0123456789"), 4);
  sender.Pump(*pair.client);
  EXPECT_TRUE(sender.empty());
  pair.Run();
  ASSERT_EQ(pair.at_worker.payloads.size(), 3);
  EXPECT_EQ(pair.at_worker.payloads[0].size(), kPartBytes);
  EXPECT_EQ(pair.at_worker.payloads[1], "xxx");
  EXPECT_EQ(pair.at_worker.messages[1].bytes().offset(), kPartBytes);
  EXPECT_EQ(pair.at_worker.messages[1].bytes().total_bytes(), text.size());
  EXPECT_EQ(pair.at_worker.payloads[2], "456789");
  EXPECT_EQ(pair.at_worker.messages[2].bytes().buffer(), 2);
  EXPECT_EQ(pair.at_worker.messages[2].bytes().offset(), 4);
}

TEST(SenderTest, ItStopsWhenTheLaneIsFullAndGoesOnLater) {
  net::Limits limits;
  limits.bulk_high_water_bytes = kPartBytes;
  LanePair pair(limits);
  pair.worker->Open(std::make_shared<net::ReceiveBuffers>());
  Sender sender(Sender::Names::kFetches);
  sender.Add(1, Bytes::Copy(std::string(5 * kPartBytes, 'x')), 0);
  sender.Pump(*pair.client);
  EXPECT_FALSE(sender.empty());
  int turns = 1;
  for (; !sender.empty() && turns < 10; ++turns) {
    const int before = pair.at_client.writable;
    pair.Run();
    ASSERT_EQ(pair.at_client.writable, before + 1);
    sender.Pump(*pair.client);
  }
  EXPECT_GT(turns, 1);
  pair.Run();
  EXPECT_EQ(pair.at_worker.payloads.size(), 5);
}

TEST(SenderTest, WhatIsDroppedIsNotSentOn) {
  net::Limits limits;
  limits.bulk_high_water_bytes = kPartBytes;
  LanePair pair(limits);
  pair.worker->Open(std::make_shared<net::ReceiveBuffers>());
  Sender sender(Sender::Names::kBuffers);
  sender.Add(1, Bytes::Copy(std::string(5 * kPartBytes, 'x')), 0);
  sender.Add(2, Bytes::Copy("abcd"), 0);
  sender.Pump(*pair.client);
  sender.Drop(1);
  pair.Run();
  sender.Pump(*pair.client);
  pair.Run();
  EXPECT_TRUE(sender.empty());
  EXPECT_EQ(pair.at_worker.payloads.back(), "abcd");
  EXPECT_LT(pair.at_worker.payloads.size(), 6);
}

}  // namespace
}  // namespace pw::lanes
