#include "pathways/lanes/receiver.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace pw::lanes {
namespace {

std::string Text(size_t size) {
  std::string text(size, 0);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 26);
  return text;
}

TEST(ReceiverTest, PartsBecomeOneInTheMemoryThatWasGiven) {
  Receiver receiver;
  AlignedBytes memory(10);
  const uint8_t* const place = memory.data();
  receiver.Expect(7, std::move(memory));
  EXPECT_FALSE(*receiver.Add(7, 0, 10, Bytes::Copy("abcd")));
  EXPECT_TRUE(*receiver.Add(7, 4, 10, Bytes::Copy("efghij")));
  const Bytes bytes = receiver.Take(7);
  EXPECT_EQ(bytes.view(), "abcdefghij");
  EXPECT_EQ(bytes.data(), place);
  EXPECT_EQ(receiver.size(), 0);
}

TEST(ReceiverTest, WhatCameInOnePieceIsNotCopied) {
  Receiver receiver;
  receiver.Expect(7, AlignedBytes(4));
  const Bytes part = Bytes::Copy("abcd");
  EXPECT_TRUE(*receiver.Add(7, 0, 4, part));
  EXPECT_EQ(receiver.Take(7).data(), part.data());
}

TEST(ReceiverTest, WhatDoesNotContinueChangesNothing) {
  Receiver receiver;
  receiver.Expect(7, AlignedBytes(10));
  ASSERT_TRUE(receiver.Add(7, 0, 10, Bytes::Copy("abcd")).ok());
  EXPECT_EQ(receiver.Add(7, 0, 10, Bytes::Copy("again")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(receiver.Add(7, 5, 10, Bytes::Copy("gap")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(receiver.Add(7, 4, 10, Bytes::Copy("too long")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(receiver.Add(7, 4, 11, Bytes::Copy("e")).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(receiver.Add(8, 0, 10, Bytes::Copy("abcd")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(receiver.received(7), 4);
  EXPECT_TRUE(*receiver.Add(7, 4, 10, Bytes::Copy("efghij")));
  EXPECT_EQ(receiver.Take(7).view(), "abcdefghij");
}

// Parts land in their place or elsewhere. Now and then the lane breaks, with a part on its way.
TEST(ReceiverTest, ALaneThatBreaksGoesOnWhereItWas) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    const size_t size = 1 + random() % 200;
    const std::string text = Text(size);
    Receiver receiver;
    receiver.Expect(7, AlignedBytes(size));
    bool complete = false;
    while (!complete) {
      const size_t at = receiver.received(7);
      const size_t part = std::min<size_t>(1 + random() % 50, size - at);
      const net::Place place = receiver.receive_buffers()->Take(7, at, part);
      ASSERT_NE(place.data, nullptr);
      if (random() % 3 == 0) {  // only some of it has been written
        std::memset(place.data, 'X', part);
        receiver.Restart(7);
        continue;
      }
      std::memcpy(place.data, text.data() + at, part);
      complete = *receiver.Add(7, at, size, Bytes(place.owner, place.data, part));
    }
    EXPECT_EQ(receiver.Take(7).view(), text);
  }
}

TEST(ReceiverTest, WhatIsRewoundIsExpectedFromItsFirstByte) {
  Receiver receiver;
  receiver.Expect(7, AlignedBytes(10));
  ASSERT_TRUE(receiver.Add(7, 0, 10, Bytes::Copy("abcd")).ok());
  receiver.Rewind(7);
  EXPECT_EQ(receiver.received(7), 0);
  EXPECT_NE(receiver.receive_buffers()->Take(7, 0, 5).data, nullptr);
  EXPECT_FALSE(receiver.Add(7, 4, 10, Bytes::Copy("efghij")).ok());
  EXPECT_FALSE(*receiver.Add(7, 0, 10, Bytes::Copy("ABCD")));
  EXPECT_TRUE(*receiver.Add(7, 4, 10, Bytes::Copy("efghij")));
  EXPECT_EQ(receiver.Take(7).view(), "ABCDefghij");
  receiver.Rewind(8);  // not expected
}

TEST(ReceiverTest, WhatIsDroppedTakesNothingMore) {
  Receiver receiver;
  receiver.Expect(7, AlignedBytes(10));
  receiver.Drop(7);
  EXPECT_FALSE(receiver.expects(7));
  EXPECT_EQ(receiver.receive_buffers()->Take(7, 0, 4).data, nullptr);
  receiver.Restart(7);
  EXPECT_EQ(receiver.receive_buffers()->Take(7, 0, 4).data, nullptr);
}

}  // namespace
}  // namespace pw::lanes
