#include "pathways/lanes/lane_end.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/lanes/receiver.h"
#include "pathways/lanes/testing.h"

namespace pw::lanes {
namespace {

using ::pathways::v1::LaneMessage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LaneMessage Part(uint64_t buffer, uint64_t offset, uint64_t total) {
  LaneMessage message;
  message.mutable_bytes()->set_buffer(buffer);
  message.mutable_bytes()->set_offset(offset);
  message.mutable_bytes()->set_total_bytes(total);
  return message;
}

TEST(LaneEndTest, MessagesArriveInOrder) {
  LanePair pair;
  LaneMessage hello;
  hello.mutable_hello()->set_session(7);
  pair.client->Send(hello);
  pair.Run();
  ASSERT_EQ(pair.at_worker.messages.size(), 1);
  EXPECT_EQ(pair.at_worker.messages[0].hello().session(), 7);
  pair.worker->Open(std::make_shared<net::ReceiveBuffers>());
  pair.client->Send(Part(1, 0, 8), Bytes::Copy("abcd"));
  pair.client->Send(Part(1, 4, 8), Bytes::Copy("efgh"));
  pair.Run();
  EXPECT_THAT(pair.at_worker.payloads, ElementsAre("", "abcd", "efgh"));
}

TEST(LaneEndTest, PayloadsLieWhereTheyAreExpected) {
  LanePair pair;
  Receiver receiver;
  AlignedBytes memory(4);
  uint8_t* const place = memory.data();
  receiver.Expect(1, std::move(memory));
  pair.worker->Open(receiver.receive_buffers());
  pair.client->Send(Part(1, 0, 4), Bytes::Copy("abcd"));
  pair.Run();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(place), 4), "abcd");
}

TEST(LaneEndTest, NoPayloadIsTakenFromAStranger) {
  LanePair pair;
  pair.client->Send(Part(1, 0, 4), Bytes::Copy("abcd"));
  pair.Run();
  EXPECT_TRUE(pair.at_worker.messages.empty());
  EXPECT_TRUE(pair.at_worker.closed);
  EXPECT_THAT(pair.at_worker.close_reason.message(), HasSubstr("before the hello is answered"));
  EXPECT_TRUE(pair.at_client.closed);
}

TEST(LaneEndTest, NoLongHeaderIsTakenFromAStranger) {
  LanePair pair;
  LaneMessage hello;
  hello.mutable_hello()->set_key(std::string(kStrangerHeaderBytes, 'k'));
  pair.client->Send(hello);
  pair.Run();
  EXPECT_TRUE(pair.at_worker.messages.empty());
  EXPECT_TRUE(pair.at_worker.closed);
}

TEST(LaneEndTest, NoPartIsLargerThanAgreed) {
  LanePair pair;
  pair.worker->Open(std::make_shared<net::ReceiveBuffers>());
  pair.client->Send(Part(1, 0, kPartBytes + 1), Bytes::Copy(std::string(kPartBytes + 1, 'x')));
  pair.Run();
  EXPECT_TRUE(pair.at_worker.messages.empty());
  EXPECT_EQ(pair.at_worker.close_reason.code(), absl::StatusCode::kInvalidArgument);
}

TEST(LaneEndTest, APayloadThatNoMessageNamesClosesTheLane) {
  LanePair pair;
  pair.worker->Open(std::make_shared<net::ReceiveBuffers>());
  LaneMessage taken;
  taken.mutable_taken()->add_fetches(1);
  pair.client->Send(taken, Bytes::Copy("abcd"));
  pair.Run();
  EXPECT_TRUE(pair.at_worker.messages.empty());
  EXPECT_TRUE(pair.at_worker.closed);
}

}  // namespace
}  // namespace pw::lanes
