#include "pathways/net/landings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/net/socket.h"

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

TEST(Landings, WhatIsForAFileIsWrittenThereInOrderAndOnce) {
  Fd file(::memfd_create("test", MFD_CLOEXEC));
  Landings landings;
  const auto memory = Memory(6);  // plays the role of the mapping
  landings.Expect(7, {memory, memory->data(), file.get()}, 6);
  EXPECT_EQ(landings.Take(7, 0, 4).data, nullptr);
  EXPECT_TRUE(landings.Put(7, 0, Bytes::Copy("abcd")));
  EXPECT_FALSE(landings.Put(7, 0, Bytes::Copy("xxxx")));
  EXPECT_FALSE(landings.Put(7, 4, Bytes::Copy("too long")));
  EXPECT_FALSE(landings.Put(8, 4, Bytes::Copy("ef")));
  EXPECT_TRUE(landings.Put(7, 4, Bytes::Copy("ef")));
  EXPECT_EQ(landings.Withdraw(7), 6u);
  char contents[8] = {};
  EXPECT_EQ(::pread(file.get(), contents, sizeof(contents), 0), 6);
  EXPECT_STREQ(contents, "abcdef");
}

TEST(Landings, WhereTheFileTakesNothingNothingMoreLands) {
  const Fd readable(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Landings landings;
  const auto memory = Memory(6);
  landings.Expect(7, {memory, memory->data(), readable.get()}, 6);
  EXPECT_FALSE(landings.Put(7, 0, Bytes::Copy("abcd")));
  EXPECT_FALSE(landings.Put(7, 4, Bytes::Copy("ef")));
  EXPECT_EQ(landings.Withdraw(7), 0u);
}

TEST(Landings, WhatHasAPlaceIsNotPutThereAgain) {
  Landings landings;
  const auto memory = Memory(4);
  landings.Expect(7, {memory, memory->data()}, 4);
  EXPECT_FALSE(landings.Put(7, 0, Bytes::Copy("abcd")));
  EXPECT_NE(landings.Take(7, 0, 4).data, nullptr);
}

}  // namespace
}  // namespace pw::net
