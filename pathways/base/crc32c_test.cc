#include "pathways/base/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace pw {
namespace {

TEST(Crc32c, KnownValues) {  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32c, BothWaysAgreeOnEveryLengthAndAlignment) {
  std::string data;
  for (int i = 0; i < 300; ++i) data.push_back(static_cast<char>(i * 37 + i / 7));
  for (size_t start = 0; start < 9; ++start) {
    for (size_t length = 0; start + length <= data.size(); length += 5) {
      const std::string_view part = std::string_view(data).substr(start, length);
      EXPECT_EQ(Crc32c(part), Crc32cPortable(part));
    }
  }
}

TEST(Crc32c, EveryFlippedBitIsSeen) {
  std::string data(64, 'x');
  const uint32_t sum = Crc32c(data);
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(Crc32c(data), sum) << bit;
    data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << bit % 8));
  }
}

}  // namespace
}  // namespace pw
