#include "pathways/base/memory/try_allocate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw {
namespace {

TEST(TryAllocate, MemoryIsAligned) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{5} << 20}) {
    std::optional<AlignedBytes> memory = TryAllocate(size);
    ASSERT_TRUE(memory.has_value());
    EXPECT_EQ(memory->size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0u);
  }
}

TEST(TryAllocate, WhatNoMachineHasIsNotThere) {
  EXPECT_FALSE(TryAllocate(size_t{1} << 60).has_value());
  EXPECT_FALSE(TryAllocate(SIZE_MAX).has_value());
}

TEST(TryAllocate, AHostBufferThatNoMachineHasIsAnError) {
  EXPECT_EQ(TryAllocateHostBuffer(100)->size(), 100u);
  for (int64_t size : {int64_t{1} << 60, int64_t{-1}}) {
    const absl::Status status = TryAllocateHostBuffer(size).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(status.message(), testing::HasSubstr(absl::StrCat("no memory for a host buffer of ", size)));
  }
}

TEST(TryCopy, ACopyHasTheBytesAndMemoryOfItsOwn) {
  const std::string text(1000, 'x');
  const absl::StatusOr<Bytes> copy = TryCopy(text);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->view(), text);
  EXPECT_NE(copy->view().data(), text.data());
  EXPECT_TRUE(TryCopy("")->empty());
  const absl::Status none = TryCopy(std::string_view(text.data(), size_t{1} << 60)).status();  // nothing is read of it
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
}

}  // namespace
}  // namespace pw
