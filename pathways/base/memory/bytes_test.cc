#include "pathways/base/memory/bytes.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace pw {
namespace {

TEST(BytesTest, CopyIsAlignedAndOutlivesItsSource) {
  Bytes bytes;
  {
    std::string source(1000, 'x');
    bytes = Bytes::Copy(source);
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 64, 0u);
  EXPECT_EQ(bytes.view(), std::string(1000, 'x'));
}

TEST(BytesTest, SliceKeepsTheOwnerAlive) {
  Bytes slice;
  {
    AlignedBytes buffer(10);
    for (int i = 0; i < 10; ++i) buffer.data()[i] = 'a' + i;
    slice = std::move(buffer).Freeze().Slice(3, 4);
  }
  EXPECT_EQ(slice.view(), "defg");
}

TEST(BytesTest, EmptyIsFine) {
  EXPECT_EQ(Bytes::Copy("").size(), 0u);
  EXPECT_TRUE(Bytes().empty());
}

}  // namespace
}  // namespace pw
