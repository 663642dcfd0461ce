#include "pathways/lanes/begun_fetches.h"

#include <string>

#include "gtest/gtest.h"
#include "pathways/lanes/lane_end.h"

namespace pw::lanes {
namespace {

TEST(BegunFetchesTest, HoweverManyAreUnderWayTheHelloFitsAStrangersHeader) {
  std::vector<BegunFetch> fetches;
  for (uint64_t i = 0; i < 1000; ++i) fetches.push_back({UINT64_MAX - i, (uint64_t{1} << 62) + (i * 7919) % 1000});
  ::pathways::v1::LaneMessage message;
  auto& hello = *message.mutable_hello();
  hello.set_version(UINT32_MAX);
  hello.set_session(UINT64_MAX);
  hello.set_key(std::string(32, 'k'));
  hello.set_shares_memory(true);
  const std::vector<BegunFetch> others = ListBegun(fetches, &hello);
  EXPECT_LE(message.ByteSizeLong(), kStrangerHeaderBytes);
  EXPECT_GT(hello.begun_size(), 100);
  EXPECT_EQ(hello.begun_size() + others.size(), fetches.size());
  uint64_t least = UINT64_MAX;
  for (const auto& begun : hello.begun()) least = std::min(least, begun.received());
  for (const BegunFetch& other : others) EXPECT_LE(other.received, least) << "more of it has arrived than of one that is listed";
}

TEST(BegunFetchesTest, AFewAreAllListed) {
  ::pathways::v1::LaneHello hello;
  EXPECT_TRUE(ListBegun({{1, 10}, {2, 30}, {3, 20}}, &hello).empty());
  ASSERT_EQ(hello.begun_size(), 3);
  EXPECT_EQ(hello.begun(0).fetch(), 2u);
  EXPECT_EQ(hello.begun(0).received(), 30u);
}

}  // namespace
}  // namespace pw::lanes
