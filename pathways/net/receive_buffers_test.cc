#include "pathways/net/receive_buffers.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace pw::net {
namespace {

std::shared_ptr<std::vector<uint8_t>> Memory(size_t size) { return std::make_shared<std::vector<uint8_t>>(size); }

TEST(ReceiveBuffers, PartsLieOneBehindTheOther) {
  ReceiveBuffers receive_buffers;
  const auto memory = Memory(10);
  receive_buffers.Expect(7, {memory, memory->data()}, 10);
  EXPECT_EQ(receive_buffers.Take(7, 0, 4).data, memory->data());
  EXPECT_EQ(receive_buffers.Take(7, 4, 6).data, memory->data() + 4);
  EXPECT_EQ(receive_buffers.Take(7, 10, 1).data, nullptr);
}

TEST(ReceiveBuffers, NoByteIsHandedOutTwiceAndNoneBeyondTheEnd) {
  ReceiveBuffers receive_buffers;
  const auto memory = Memory(10);
  receive_buffers.Expect(7, {memory, memory->data()}, 10);
  EXPECT_NE(receive_buffers.Take(7, 0, 4).data, nullptr);
  EXPECT_EQ(receive_buffers.Take(7, 0, 4).data, nullptr);
  EXPECT_EQ(receive_buffers.Take(7, 6, 1).data, nullptr);  // not the next one
  EXPECT_EQ(receive_buffers.Take(7, 4, 7).data, nullptr);
  EXPECT_EQ(receive_buffers.Take(7, 4, ~size_t{0}).data, nullptr);
  EXPECT_EQ(receive_buffers.Take(8, 0, 1).data, nullptr);
}

TEST(ReceiveBuffers, WhatIsThereAlreadyIsNotHandedOut) {
  ReceiveBuffers receive_buffers;
  const auto memory = Memory(10);
  receive_buffers.Expect(7, {memory, memory->data()}, 10, 4);
  EXPECT_EQ(receive_buffers.Take(7, 0, 4).data, nullptr);
  EXPECT_EQ(receive_buffers.Take(7, 4, 7).data, nullptr);
  EXPECT_EQ(receive_buffers.Take(7, 4, 6).data, memory->data() + 4);
}

TEST(ReceiveBuffers, WhoWritesKeepsTheMemory) {
  ReceiveBuffers receive_buffers;
  auto memory = Memory(10);
  const std::weak_ptr<void> alive = memory;
  receive_buffers.Expect(7, {memory, memory->data()}, 10);
  Place place = receive_buffers.Take(7, 0, 4);
  memory.reset();
  receive_buffers.Withdraw(7);
  EXPECT_EQ(receive_buffers.Take(7, 4, 1).data, nullptr);
  EXPECT_FALSE(alive.expired());
  place = Place();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace pw::net
