#include "pathways/net/shared/shared_copy.h"

#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <utility>

#include "pathways/base/threads/thread_pool.h"

namespace pw::net {
namespace {

Bytes Numbers(size_t size) {
  AlignedBytes bytes(size);
  std::iota(bytes.data(), bytes.data() + size, 0);
  return std::move(bytes).Freeze();
}

TEST(SharedCopyTest, HoldsTheSameAndHasAName) {
  SharedMemoryFactory factory;
  const Bytes contents = Numbers(1001);
  const absl::StatusOr<Bytes> copy = SharedCopy(factory, contents);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->view(), contents.view());
  EXPECT_TRUE(NameOf(*copy).has_value());
}

TEST(SharedCopyTest, SeveralThreadsMakeOneCopyOfFreshAndOfUsedMemory) {
  SharedMemoryFactory factory(8, {.always = size_t{1} << 30});
  for (const size_t size : {size_t{0}, size_t{1}, (size_t{8} << 20) - 1, (size_t{37} << 20) + 5}) {
    const Bytes contents = Numbers(size);
    for (int round = 0; round < 2; ++round) {
      std::promise<Bytes> made;
      ThreadPool pool("copy", 3);
      SharedCopyOn(&pool, *factory.Create(size), contents, [&](absl::StatusOr<Bytes> copy) { made.set_value(*std::move(copy)); });
      EXPECT_TRUE(made.get_future().get().view() == contents.view());
    }
  }
}

TEST(SharedCopyTest, WhatIsCopiedIsHeldUntilItsEndIsKnown) {
  SharedMemoryFactory factory;
  auto owner = std::make_shared<int>(0);
  std::weak_ptr<int> held = owner;
  const Bytes numbers = Numbers(40 << 20);
  Bytes contents(std::move(owner), numbers.data(), numbers.size());
  std::promise<bool> held_at_the_end;
  {
    ThreadPool pool("copy", 3);
    SharedCopyOn(&pool, *factory.Create(numbers.size()), std::move(contents),
                 [&](absl::StatusOr<Bytes>) { held_at_the_end.set_value(!held.expired()); });
    EXPECT_TRUE(held_at_the_end.get_future().get());
  }
  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace pw::net
