// Tests that idle arrays make room, and come back.
#include "pathways/worker/store/spill.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSum[] = "args=2 outputs=1 dims=4";  // x + 2 y + 1

// Room for three arrays of 16 bytes on each of two devices.
struct Small : WorkerHarness {
  explicit Small(bool spill = true) : WorkerHarness(Limited()) { worker->spill().Enable(spill); }
  static Setup Limited() {
    Setup setup;
    setup.limits.device_memory_bytes = 50;
    return setup;
  }
  void PutAll(uint64_t first, int count) {
    for (int i = 0; i < count; ++i) {
      const auto value = static_cast<float>(10 * i);
      Put(1000 + first + static_cast<uint64_t>(i), first + static_cast<uint64_t>(i), {value, value, value, value});
      Settle();
    }
  }
  absl::Status Run(uint64_t op, uint64_t executable, std::vector<uint64_t> args, uint64_t result) {
    Execute(op, executable, std::move(args), {result});
    Settle();
    return connection.done.at(op);
  }
  Spill& spill() { return worker->spill(); }
};

TEST(Spill, IsOffByDefault) {
  Small w(false);
  w.PutAll(100, 4);
  EXPECT_EQ(w.connection.done.at(1103).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(w.spill().moved_out(), 0u);
}

TEST(Spill, TheArraysUsedLongestAgoMakeRoomAndAreReadWhereTheyAre) {
  Small w;
  w.Compile(1, kAdd);
  w.PutAll(100, 3);
  ASSERT_TRUE(w.Run(11, 1, {100}, 200).ok());  // uses 100 again: now 101 is the least recently used
  EXPECT_EQ(w.spill().moved_out(), 2u) << "one array, on two devices";
  EXPECT_EQ(w.Memory().devices(0).used_bytes(), 48);
  EXPECT_THAT(w.Read(101, 0), ElementsAre(10, 10, 10, 10));
  EXPECT_THAT(w.Read(200, 1), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(w.spill().moved_back(), 0u) << "reading needs no room on the device";
}

TEST(Spill, WhatAComputationTakesComesBackAndOthersGo) {
  Small w;
  w.Compile(1, kAdd);
  w.PutAll(100, 6);
  EXPECT_EQ(w.spill().moved_out(), 6u);
  for (int i = 0; i < 6; ++i) {
    const auto n = static_cast<uint64_t>(i);
    ASSERT_TRUE(w.Run(20 + n, 1, {100 + n}, 200 + n).ok()) << w.connection.done.at(20 + n);
  }
  for (int i = 0; i < 6; ++i) {
    const auto n = static_cast<uint64_t>(i);
    EXPECT_THAT(w.Read(200 + n, 1), ElementsAre(10 * i + 1, 10 * i + 1, 10 * i + 1, 10 * i + 1));
    EXPECT_THAT(w.Read(100 + n, 0), ElementsAre(10 * i, 10 * i, 10 * i, 10 * i)) << "it is as it was";
  }
  EXPECT_LE(w.Memory().devices(0).peak_bytes(), 50);
  EXPECT_GT(w.spill().moved_back(), 0u);
}

TEST(Spill, AnArgumentThatIsAwayMayBeDonated) {
  Small w;
  w.Compile(1, kDonate);
  w.PutAll(100, 5);  // 100 and 101 are moved out
  ASSERT_TRUE(w.Run(11, 1, {100}, 200).ok()) << w.connection.done.at(11);
  EXPECT_THAT(w.Read(200, 0), ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(w.Memory().devices(0).used_bytes(), 48);
}

TEST(Spill, WhatDoesNotFitEvenSoFailsAndNothingIsLost) {
  Small w;
  w.Compile(1, "args=3 outputs=1 dims=4");
  w.PutAll(100, 4);
  const absl::Status status = w.Run(11, 1, {100, 101, 102}, 200);  // four arrays at the same time
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("32 B more are needed"));
  for (int i = 0; i < 4; ++i) EXPECT_THAT(w.Read(100 + static_cast<uint64_t>(i), 0), ElementsAre(10 * i, 10 * i, 10 * i, 10 * i));
}

TEST(Spill, WhatIsReleasedWhileAwayGivesBackNothingTwice) {
  Small w;
  w.PutAll(100, 5);
  for (uint64_t array : {100, 101, 102, 103, 104}) w.Release(array);
  w.Settle();
  EXPECT_EQ(w.Memory().devices(0).used_bytes(), 0);
  EXPECT_EQ(w.Memory().devices(1).used_bytes(), 0);
}

// Any order of computations over more arrays than fit gives the same results as with enough room.
TEST(Spill, RandomProgramsGiveTheSameAsWithRoomForAll) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](size_t n) { return static_cast<uint64_t>(random() % n); };
    Small w;
    w.Compile(1, kSum);
    w.PutAll(100, 4);
    std::vector<float> values = {0, 10, 20, 30};
    for (uint64_t step = 0; step < 20; ++step) {
      const uint64_t a = below(values.size()), b = below(values.size());
      w.Execute(10 + step, 1, {100 + a, 100 + b}, {100 + values.size()});
      if (below(2) == 0) w.Settle();  // else several run at the same time
      values.push_back(values[a] + 2 * values[b] + 1);
    }
    w.Settle();
    for (uint64_t step = 0; step < 20; ++step)
      ASSERT_TRUE(w.connection.done.at(10 + step).ok()) << seed << w.connection.done.at(10 + step);
    for (size_t i = 0; i < values.size(); ++i) {
      const float v = values[i];
      EXPECT_THAT(w.Read(100 + i, static_cast<int>(below(2))), ElementsAre(v, v, v, v)) << "seed " << seed << ", array " << i;
    }
    EXPECT_LE(w.Memory().devices(0).peak_bytes(), 50);
  }
}

}  // namespace
}  // namespace pw::worker
