#include "pathways/net/landings.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace pw::net {
namespace {

std::shared_ptr<std::vector<uint8_t>> Memory(size_t size) { return std::make_shared<std::vector<uint8_t>>(size); }

TEST(Landings, PartsLieOneBehindTheOther) {
  Landings landings;
  const auto memory = Memory(10);
  landings.Expect(7, {memory, memory->data()}, 10);
  EXPECT_EQ(landings.Take(7, 0, 4).data, memory->data());
  EXPECT_EQ(landings.Take(7, 4, 6).data, memory->data() + 4);
  EXPECT_EQ(landings.Take(7, 10, 1).data, nullptr);
}

TEST(Landings, NoByteIsHandedOutTwiceAndNoneBeyondTheEnd) {
  Landings landings;
  const auto memory = Memory(10);
  landings.Expect(7, {memory, memory->data()}, 10);
  EXPECT_NE(landings.Take(7, 0, 4).data, nullptr);
  EXPECT_EQ(landings.Take(7, 0, 4).data, nullptr);
  EXPECT_EQ(landings.Take(7, 6, 1).data, nullptr);  // not the next one
  EXPECT_EQ(landings.Take(7, 4, 7).data, nullptr);
  EXPECT_EQ(landings.Take(7, 4, ~size_t{0}).data, nullptr);
  EXPECT_EQ(landings.Take(8, 0, 1).data, nullptr);
}

TEST(Landings, WhatIsThereAlreadyIsNotHandedOut) {
  Landings landings;
  const auto memory = Memory(10);
  landings.Expect(7, {memory, memory->data()}, 10, 4);
  EXPECT_EQ(landings.Take(7, 0, 4).data, nullptr);
  EXPECT_EQ(landings.Take(7, 4, 7).data, nullptr);
  EXPECT_EQ(landings.Take(7, 4, 6).data, memory->data() + 4);
}

TEST(Landings, WhoWritesKeepsTheMemory) {
  Landings landings;
  auto memory = Memory(10);
  const std::weak_ptr<void> alive = memory;
  landings.Expect(7, {memory, memory->data()}, 10);
  Place place = landings.Take(7, 0, 4);
  memory.reset();
  landings.Withdraw(7);
  EXPECT_EQ(landings.Take(7, 4, 1).data, nullptr);
  EXPECT_FALSE(alive.expired());
  place = Place();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace pw::net
