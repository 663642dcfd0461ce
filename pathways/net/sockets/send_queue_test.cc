#include "pathways/net/sockets/send_queue.h"

#include <algorithm>
#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "pathways/net/framing.h"
#include "pathways/net/testing.h"

namespace pw::net {
namespace {

OutFrame Make(std::string header, std::vector<Bytes> payload, Lane lane) {
  OutFrame frame{std::move(header), std::move(payload), 0, lane};
  for (const Bytes& piece : frame.payload) frame.payload_bytes += piece.size();
  return frame;
}

// Returns the bytes of the batch, written `step` at a time.
std::string Write(WriteBatch& batch, size_t step) {
  std::string out;
  while (!batch.done()) {
    size_t left = step;
    std::string part;
    for (const iovec& piece : batch.Pending()) {
      const size_t n = std::min(left, piece.iov_len);
      part.append(static_cast<const char*>(piece.iov_base), n);
      left -= n;
    }
    batch.Advance(part.size());
    out += part;
  }
  return out;
}

TEST(SendQueueTest, UrgentGoesFirstAndEachLaneKeepsItsOrder) {
  SendQueue queue;
  for (const char* name : {"b1", "b2"}) queue.Push(Make(name, {}, Lane::kBulk));
  for (const char* name : {"u1", "u2"}) queue.Push(Make(name, {}, Lane::kUrgent));
  std::vector<OutFrame> taken;
  queue.Take(&taken);
  std::vector<std::string> order;
  for (const OutFrame& frame : taken) order.push_back(frame.header);
  EXPECT_EQ(order, (std::vector<std::string>{"u1", "u2", "b1", "b2"}));
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueueTest, ABatchStopsAtItsSizeSoThatUrgentFramesWaitForLittle) {
  SendQueue queue;
  const Bytes payload = Pattern(100 << 10, 1);
  for (int i = 0; i < 10; ++i) queue.Push(Make("bulk", {payload}, Lane::kBulk));
  std::vector<OutFrame> taken;
  queue.Take(&taken);
  EXPECT_EQ(taken.size(), 3u);
  queue.Push(Make("urgent", {}, Lane::kUrgent));
  taken.clear();
  queue.Take(&taken);
  EXPECT_EQ(taken[0].header, "urgent");
}

TEST(SendQueueTest, ABatchHasTheBytesOfItsFramesHoweverItIsWritten) {
  WriteBatch batch;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return random() % n; };
    std::vector<OutFrame> frames;
    std::string expected;
    size_t bulk = 0;
    for (size_t i = 0, count = below(SendQueue::kBatchFrames + 1); i < count; ++i) {
      std::string header(below(10) == 0 ? 1000 : below(300), 'h');
      std::vector<Bytes> pieces;
      for (size_t p = below(4); p > 0; --p) pieces.push_back(Pattern(below(10) == 0 ? 2000 : below(300), i));
      const Lane lane = below(2) == 0 ? Lane::kUrgent : Lane::kBulk;
      frames.push_back(Make(header, pieces, lane));
      if (lane == Lane::kBulk) bulk += frames.back().size();
      std::string prefix(kPrefixBytes, '\0');
      EncodePrefix({static_cast<uint32_t>(header.size()), frames.back().payload_bytes},
                   reinterpret_cast<uint8_t*>(prefix.data()));
      expected += prefix + header;
      for (const Bytes& piece : pieces) expected += piece.view();
    }
    batch.Load(std::move(frames));
    EXPECT_EQ(batch.bulk_bytes(), bulk);
    EXPECT_EQ(Write(batch, 1 + below(20000)), expected);
    EXPECT_TRUE(batch.Clear().empty());
  }
}

TEST(SendQueueTest, AFrameOfVeryManyPiecesTakesSeveralCalls) {
  WriteBatch batch;
  std::vector<Bytes> pieces(5000, Pattern(300, 1));
  std::vector<OutFrame> frames;
  frames.push_back(Make("", pieces, Lane::kBulk));
  batch.Load(std::move(frames));
  EXPECT_LE(batch.Pending().size(), 1024u);
  EXPECT_EQ(Write(batch, 1 << 20).size(), kPrefixBytes + 5000 * 300);
}

}  // namespace
}  // namespace pw::net
