#include "pathways/net/resumable/resumable_link.h"

#include <deque>
#include <memory>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace pw::net {
namespace {

// Both ends know the length of a header without the fields that the link adds.
constexpr size_t kHeader = 8;

std::string Header(uint64_t n) { return absl::StrCat(absl::Dec(n, absl::kZeroPad8)); }

// A frame as the other end reads it.
struct Read {
  std::string header;
  bool beside = false, bulk = false;
  std::optional<ResumableLink::Counts> received;
};

uint64_t Varint(absl::string_view* bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

Read Parse(absl::string_view bytes) {
  Read read;
  if (bytes.size() >= kHeader && bytes[0] == '0') {
    read.header = std::string(bytes.substr(0, kHeader));
    bytes.remove_prefix(kHeader);
  }
  while (!bytes.empty()) {
    switch (Varint(&bytes) >> 3) {
      case ResumableLink::kReceivedField: {
        const uint64_t size = Varint(&bytes);
        absl::string_view counts = bytes.substr(0, size);
        bytes.remove_prefix(counts.size());
        read.received.emplace();
        EXPECT_EQ(Varint(&counts), 1u << 3);
        read.received->urgent = Varint(&counts);
        EXPECT_EQ(Varint(&counts), 2u << 3);
        read.received->bulk = Varint(&counts);
        break;
      }
      case ResumableLink::kBesideField:
        read.beside = Varint(&bytes) != 0;
        break;
      case ResumableLink::kBulkField:
        read.bulk = Varint(&bytes) != 0;
        break;
      default:
        ADD_FAILURE() << "an unknown field";
        return read;
    }
  }
  return read;
}

// Frames on their way to the other end.
class Way : public Connection {
 public:
  void Start(Handler*) override {}
  void Send(std::string header, std::vector<Bytes> payload, Lane lane) override {
    ++frames;
    extra_bytes += header.size() - std::min(header.size(), kHeader);
    lanes[lane == Lane::kBulk].push_back({std::move(header), payload.empty() ? Bytes() : payload[0]});
  }
  bool CanSendBulk() const override { return lanes[1].size() < 4; }
  void Close(absl::Status) override {}
  Counters counters() const override { return {}; }
  const std::string& peer() const override { return peer_; }
  PeerProof proof() const override { return PeerProof::kOwn; }

  std::deque<Frame> lanes[2];
  size_t frames = 0, extra_bytes = 0;

 private:
  const std::string peer_ = "a test";
};

// One end, which counts the frames that it sends, and expects the other end's numbers in order.
class End {
 public:
  explicit End(bool resumable = true, ResumableLink::Lanes lanes = ResumableLink::Lanes::kBoth)
      : marked_(lanes == ResumableLink::Lanes::kBoth), link_(std::make_unique<ResumableLink>(&way, resumable, lanes)) {}

  void Send(Lane lane, size_t payload = 0) {
    std::vector<Bytes> pieces;
    static const Bytes kPayload = Bytes::FromString(std::string(1 << 20, 'p'));
    if (payload > 0) pieces.push_back(kPayload.Slice(0, payload));
    link_->Send(Header(++sent[lane == Lane::kBulk]), std::move(pieces), lane);
  }
  // Delivers the next frame of this lane from the other end. Returns false if there is none.
  bool Arrives(End& from, int lane) {
    if (from.way.lanes[lane].empty()) return false;
    const Frame frame = std::move(from.way.lanes[lane].front());
    from.way.lanes[lane].pop_front();
    const Read read = Parse(frame.header);
    if (read.received.has_value()) {
      EXPECT_TRUE(link_->Acknowledge(*read.received).ok());
    }
    if (read.beside) return true;
    EXPECT_EQ(read.bulk, marked_ && lane == 1);
    EXPECT_EQ(read.header, Header(++heard[lane])) << "each once, in order";
    link_->Receive(lane == 1 ? Lane::kBulk : Lane::kUrgent, frame.header.size() + frame.payload.size());
    return true;
  }
  ResumableLink& link() { return *link_; }

  Way way;
  uint64_t sent[2] = {}, heard[2] = {};

 private:
  const bool marked_;
  std::unique_ptr<ResumableLink> link_;
};

void Break(End& a, End& b) {
  for (End* end : {&a, &b}) {
    end->link().Lose();
    for (auto& lane : end->way.lanes) lane.clear();
  }
}

void Resume(End& a, End& b) {
  const ResumableLink::Counts of_a = a.link().received(), of_b = b.link().received();
  EXPECT_TRUE(b.link().Resume(&b.way, of_a).ok());
  EXPECT_TRUE(a.link().Resume(&a.way, of_b).ok());
  b.link().TellAgain();
  a.link().TellAgain();
}

void Settle(End& a, End& b) {
  while (a.Arrives(b, 0) || a.Arrives(b, 1) || b.Arrives(a, 0) || b.Arrives(a, 1)) {
  }
}

TEST(ResumableLinkTest, EveryFrameArrivesOnceThroughTenThousandBreaks) {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  int breaks = 0;
  for (int world = 0; world < 100; ++world) {
    End a, b;
    const auto step = [&](End& from, End& to) {
      const int what = below(10);
      if (what < 3) from.Send(Lane::kUrgent, below(4) == 0 ? 1 + below(200'000) : 0);
      if (what == 3 && from.link().CanSendBulk()) from.Send(Lane::kBulk, 1 + below((1 << 20) - 1));
      if (what > 3) from.Arrives(to, below(3) == 0);
    };
    for (int i = 0; i < 3000; ++i) {
      step(a, b);
      step(b, a);
      if (below(30) != 0) continue;
      ++breaks;
      Break(a, b);
      for (int j = below(6); j > 0; --j) a.Send(Lane::kUrgent), b.Send(Lane::kUrgent);
      Resume(a, b);
      if (below(3) == 0) Break(a, b), Resume(a, b);  // at once again
    }
    Settle(a, b);
    for (int lane : {0, 1}) {
      ASSERT_EQ(a.heard[lane], b.sent[lane]);
      ASSERT_EQ(b.heard[lane], a.sent[lane]);
    }
    for (End* end : {&a, &b}) EXPECT_LE(end->link().kept_frames(), 1100u) << "what is not acknowledged is bounded";
  }
  EXPECT_GE(breaks, 9'000);
}

TEST(ResumableLinkTest, AFewFramesGrowByNothing) {
  End a, b;
  for (int i = 0; i < 50; ++i) a.Send(Lane::kUrgent), b.Arrives(a, 0), b.Send(Lane::kUrgent), a.Arrives(b, 0);
  EXPECT_EQ(a.way.extra_bytes + b.way.extra_bytes, 0u);
  for (int i = 0; i < 500; ++i) a.Send(Lane::kUrgent), b.Arrives(a, 0), b.Send(Lane::kUrgent), a.Arrives(b, 0);
  EXPECT_EQ(a.way.frames + b.way.frames, 1100u) << "acknowledgements go with them";
  EXPECT_LE(a.way.extra_bytes + b.way.extra_bytes, 200u);
  EXPECT_LE(a.link().kept_frames(), 65u);
}

TEST(ResumableLinkTest, AcknowledgementsGoAloneIfNothingElseGoes) {
  End a, b;
  for (int i = 0; i < 10'000; ++i) a.Send(Lane::kUrgent), b.Arrives(a, 0), a.Arrives(b, 0);
  EXPECT_LE(a.link().kept_frames(), 1024u);
  EXPECT_LE(b.way.frames, 10u);
}

TEST(ResumableLinkTest, WhatIsToldAgainLeavesRoomForHeartbeats) {
  End a, b;
  Break(a, b);
  for (int i = 0; i < 40; ++i) a.Send(Lane::kUrgent, 1 << 20);
  Resume(a, b);
  EXPECT_EQ(a.way.frames, 4u) << "kWindowBytes";
  a.Send(Lane::kUrgent);
  EXPECT_EQ(a.way.frames, 4u) << "it has its turn";
  Settle(a, b);
  EXPECT_EQ(b.heard[0], 41u);
}

TEST(ResumableLinkTest, TheBulkLaneIsBoundedByWhatIsNotAcknowledged) {
  End a, b;
  while (a.link().CanSendBulk()) {
    a.Send(Lane::kBulk, 1 << 20);
    a.way.lanes[1].clear();  // sent, and lost
  }
  EXPECT_EQ(a.sent[1], 32u);
  Break(a, b);
  EXPECT_FALSE(a.link().CanSendBulk()) << "away";
  Resume(a, b);
  Settle(a, b);
  EXPECT_EQ(b.heard[1], 32u);
  EXPECT_TRUE(a.link().CanSendBulk());
}

// The frames of both ends' only lane.
struct OfOneLane : End {
  OfOneLane() : End(true, ResumableLink::Lanes::kBulkOnly) {}
};

TEST(ResumableLinkTest, FramesOfTheOnlyLaneArriveOnceAndGrowByNothing) {
  std::mt19937 random(12);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int world = 0; world < 50; ++world) {
    OfOneLane a, b;
    for (int i = 0; i < 2000; ++i) {
      if (below(3) == 0 && a.link().CanSendBulk()) a.Send(Lane::kBulk, below(4) == 0 ? 1 << 20 : below(1000));
      if (below(20) == 0) b.Send(Lane::kBulk);
      b.Arrives(a, below(2));
      a.Arrives(b, below(2));
      if (below(200) == 0) b.link().TellReceived();
      if (below(50) == 0) Break(a, b), Resume(a, b);
    }
    Settle(a, b);
    ASSERT_EQ(b.heard[1], a.sent[1]);
    ASSERT_EQ(a.heard[1], b.sent[1]);
    EXPECT_EQ(a.way.lanes[1].size() + b.way.lanes[1].size(), 0u);
  }
  OfOneLane a, b;
  for (int i = 0; i < 50; ++i) a.Send(Lane::kBulk), b.Arrives(a, 1);
  EXPECT_EQ(a.way.extra_bytes + b.way.frames, 0u);
}

TEST(ResumableLinkTest, TheOnlyLaneIsAcknowledgedEveryTwoMebibytesAndWhenAskedTo) {
  OfOneLane a, b;
  for (int i = 0; i < 64; ++i) a.Send(Lane::kBulk, 1 << 20), b.Arrives(a, 1), a.Arrives(b, 0);
  EXPECT_EQ(b.way.frames, 32u);
  a.Send(Lane::kBulk);
  b.Arrives(a, 1);
  EXPECT_EQ(a.link().kept_frames(), 1u);
  b.link().TellReceived();
  b.link().TellReceived();
  EXPECT_EQ(b.way.frames, 33u) << "nothing new";
  a.Arrives(b, 0);
  EXPECT_EQ(a.link().kept_frames(), 0u);
}

// An end that resends stops at kWindowBytes, so the other one must not owe more.
TEST(ResumableLinkTest, FramesOfAnySizeAreResentToTheEnd) {
  for (const size_t payload : {size_t{0}, size_t{1000}, size_t{4000}, size_t{100'000}, size_t{1} << 20}) {
    OfOneLane a, b;
    Break(a, b);
    for (int i = 0; i < 30'000 && a.link().kept_bytes() < 24 << 20; ++i) a.Send(Lane::kBulk, payload);
    Resume(a, b);
    Settle(a, b);
    EXPECT_EQ(b.heard[1], a.sent[1]) << payload;
  }
}

TEST(ResumableLinkTest, ImpossibleCountsAreRefusedAndChangeNothing) {
  End a, b;
  a.Send(Lane::kUrgent);
  EXPECT_FALSE(a.link().Acknowledge({2, 0}).ok());
  EXPECT_FALSE(a.link().Acknowledge({0, 1}).ok());
  Break(a, b);
  EXPECT_FALSE(a.link().Resume(&a.way, {1, 1}).ok());
  EXPECT_FALSE(a.link().Resume(&a.way, {5, 0}).ok());
  EXPECT_TRUE(a.link().away());
  Resume(a, b);
  Settle(a, b);
  EXPECT_EQ(b.heard[0], 1u);
}

TEST(ResumableLinkTest, ALinkThatNothingBreaksKeepsAndAddsNothing) {
  End a(false), b(false);
  for (int i = 0; i < 5000; ++i) a.Send(Lane::kUrgent);
  a.link().Send("bulk", {}, Lane::kBulk);
  EXPECT_EQ(a.way.lanes[1].front().header, "bulk");
  EXPECT_EQ(a.way.extra_bytes, 0u);
  EXPECT_EQ(a.link().kept_frames(), 0u);
  a.link().Lose();
  a.link().Send("lost");
  EXPECT_FALSE(a.link().Resume(&a.way, {}).ok());
}

}  // namespace
}  // namespace pw::net
