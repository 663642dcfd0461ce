#include "pathways/program/repeated_moves.h"

#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace pw::program {
namespace {

using ::pathways::v1::Move;

Move::Send Send(int shard, uint64_t transfer, int64_t start, int64_t size, uint32_t to = 7) {
  Move::Send send;
  send.set_array(3);
  send.set_shard(shard);
  send.set_transfer(transfer);
  send.set_to_host(to);
  send.mutable_region()->add_start(start);
  send.mutable_region()->add_size(size);
  return send;
}

Move::Receive Receive(int shard, int device, std::vector<std::pair<uint64_t, int64_t>> pieces) {
  Move::Receive receive;
  receive.set_array(4);
  receive.set_shard(shard);
  receive.set_local_device(device);
  receive.add_dims(16);
  for (const auto& [transfer, start] : pieces) {
    auto* piece = receive.add_pieces();
    piece->set_transfer(transfer);
    piece->set_from_host(9);
    piece->mutable_to()->add_start(start);
    piece->mutable_to()->add_size(4);
  }
  return receive;
}

Move Joined(const Move& plain) {
  MoveRuns<Move::Send> sends;
  MoveRuns<Move::Receive> receives;
  for (const auto& send : plain.sends()) sends.Add(send);
  for (const auto& receive : plain.receives()) receives.Add(receive);
  Move joined;
  for (auto& send : sends.Take()) *joined.add_sends() = std::move(send);
  for (auto& receive : receives.Take()) *joined.add_receives() = std::move(receive);
  return joined;
}

void ExpectSame(const Move& joined, const Move& plain) {
  EXPECT_EQ(Expanded(joined).SerializeAsString(), plain.SerializeAsString());
}

TEST(RepeatedMoves, EvenStepsAreOneEntryHoweverMany) {
  for (int count : {1, 2, 3, 2048}) {
    Move plain;
    for (int i = 0; i < count; ++i) {
      *plain.add_sends() = Send(2 * i + 1, 100 + static_cast<uint64_t>(i), 4 * i, 4);
      *plain.add_receives() =
          Receive(i, count - i, {{100 + static_cast<uint64_t>(i), 0}, {9000 - static_cast<uint64_t>(2 * i), 8}});
    }
    const Move joined = Joined(plain);
    EXPECT_EQ(joined.sends_size(), 1);
    EXPECT_EQ(joined.receives_size(), 1);
    ExpectSame(joined, plain);
  }
}

// Every shard is sent in several pieces.
TEST(RepeatedMoves, EvenRunsOfEvenRunsAreOneEntryToo) {
  for (int shards : {2, 5, 512}) {
    Move plain;
    for (int i = 0; i < shards * 4; ++i) *plain.add_sends() = Send(i / 4, 7 + static_cast<uint64_t>(i), i % 4 * 8, 8);
    const Move joined = Joined(plain);
    ASSERT_EQ(joined.sends_size(), 1);
    EXPECT_EQ(joined.sends(0).repeats_size(), 2);
    EXPECT_LT(joined.ByteSizeLong(), 64u);
    ExpectSame(joined, plain);
  }
}

TEST(RepeatedMoves, WhatDiffersIsAnEntryOfItsOwn) {
  auto separate = [](const auto& a, const auto& b) {
    MoveRuns<std::decay_t<decltype(a)>> runs;
    runs.Add(a);
    runs.Add(b);
    return runs.Take().size() == 2;
  };
  const Move::Send send = Send(0, 1, 0, 4);
  EXPECT_FALSE(separate(send, Send(1, 2, 4, 4)));
  EXPECT_TRUE(separate(send, Send(1, 2, 4, 5))) << "size";
  EXPECT_TRUE(separate(send, Send(1, 2, 4, 4, 8))) << "host";
  const Move::Receive receive = Receive(0, 0, {{1, 0}});
  EXPECT_FALSE(separate(receive, Receive(1, 1, {{2, 4}})));
  EXPECT_TRUE(separate(receive, Receive(1, 1, {{2, 0}, {3, 4}}))) << "pieces";
  Move::Receive other = Receive(1, 1, {{2, 0}});
  other.mutable_pieces(0)->set_source_array(4);
  EXPECT_TRUE(separate(receive, other)) << "local and not";
  other = Receive(1, 1, {{2, 0}});
  other.set_dims(0, 15);
  EXPECT_TRUE(separate(receive, other)) << "shape";
}

TEST(RepeatedMoves, AnyMoveIsWhatItWas) {
  std::mt19937 random(17);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (int round = 0; round < 500; ++round) {
    Move plain;
    const int variety = 1 + below(3);
    for (int i = below(40); i > 0; --i) {
      *plain.add_sends() = Send(below(variety), 1 + static_cast<uint64_t>(below(3)), below(variety), 1 + below(variety), 7);
      *plain.add_receives() = Receive(below(3), below(variety), {{static_cast<uint64_t>(below(variety)), below(2)}});
    }
    ExpectSame(Joined(plain), plain);
  }
}

// Hostile counts must not make a host expand an entry beyond kMaxRepeated.
TEST(RepeatedMoves, CountsAreBounded) {
  Move move;
  *move.add_sends() = Send(0, 1, 0, 4);
  for (int level = 0; level < 4; ++level) {
    auto* repeat = move.mutable_sends(0)->add_repeats();
    repeat->set_count(UINT32_MAX);
    for (int i = 0; i < 9; ++i) repeat->add_steps(INT64_MAX);
  }
  int64_t seen = 0;
  ForEachSend(move, [&](const Move::Send&) { ++seen; });
  EXPECT_EQ(seen, kMaxRepeated);
}

}  // namespace
}  // namespace pw::program
