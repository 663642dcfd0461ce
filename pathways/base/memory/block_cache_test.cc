#include "pathways/base/memory/block_cache.h"

#include <optional>
#include <utility>

#include "gtest/gtest.h"

namespace pw {
namespace {

constexpr size_t kMiB = 1 << 20;

TEST(BlockCache, WhatComesBackIsTakenAgain) {
  BlockCache cache;
  std::optional<AlignedBytes> first = cache.Take(8 * kMiB);
  uint8_t* const data = first->data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
  first.reset();
  EXPECT_EQ(cache.idle_bytes(), 8 * kMiB);
  AlignedBytes second = *cache.Take(7 * kMiB);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.size(), 7 * kMiB);
  EXPECT_EQ(cache.idle_bytes(), 0u);
}

TEST(BlockCache, ABlockComesBackWhenTheLastOfItsBytesHasGone) {
  BlockCache cache;
  Bytes bytes = (*cache.Take(8 * kMiB)).Freeze();
  Bytes part = bytes.Slice(10, 20);
  bytes = Bytes();
  EXPECT_EQ(cache.idle_bytes(), 0u);
  part = Bytes();
  EXPECT_EQ(cache.idle_bytes(), 8 * kMiB);
}

TEST(BlockCache, MuchLargerBlocksAreNotWastedAndSmallOnesNotKept) {
  BlockCache cache;
  {
    AlignedBytes large = *cache.Take(16 * kMiB), small = *cache.Take(100);
  }
  EXPECT_EQ(cache.idle_bytes(), 16 * kMiB);
  AlignedBytes other = *cache.Take(8 * kMiB);
  EXPECT_EQ(cache.idle_bytes(), 16 * kMiB);
}

TEST(BlockCache, TheLongestIdleGoFirstWhenThereIsTooMuch) {
  BlockCache cache(20 * kMiB);
  {
    AlignedBytes a = *cache.Take(8 * kMiB);
  }
  {
    AlignedBytes b = *cache.Take(16 * kMiB);
  }
  EXPECT_EQ(cache.idle_bytes(), 16 * kMiB);
  {
    AlignedBytes c = *cache.Take(32 * kMiB);
  }
  EXPECT_EQ(cache.idle_bytes(), 0u);
}

TEST(BlockCache, MemoryThatThereIsNotIsNotGiven) {
  BlockCache cache;
  EXPECT_FALSE(cache.Take(size_t{1} << 60).has_value());
  EXPECT_TRUE(cache.Take(8 * kMiB).has_value());
}

TEST(BlockCache, BlocksMayOutliveIt) {
  std::optional<BlockCache> cache(std::in_place);
  Bytes bytes = (*cache->Take(8 * kMiB)).Freeze();
  cache.reset();
  EXPECT_EQ(bytes.size(), 8 * kMiB);
}

}  // namespace
}  // namespace pw
