#include "pathways/resource/natural_order.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace pw::resource {
namespace {

TEST(NaturalOrderTest, SortsNumbersByValue) {
  EXPECT_TRUE(NaturalLess("host2", "host10"));
  EXPECT_TRUE(NaturalLess("host9-b", "host10-a"));
  EXPECT_TRUE(NaturalLess("a", "b"));
  EXPECT_TRUE(NaturalLess("host", "host0"));
  EXPECT_TRUE(NaturalLess("h99999999999999999999999", "h100000000000000000000000"));
  EXPECT_FALSE(NaturalLess("x", "x"));
}

TEST(NaturalOrderTest, IsAStrictTotalOrder) {
  std::vector<std::string> names = {""};
  for (int length = 1; length <= 3; ++length) {
    const size_t end = names.size();
    for (size_t i = 0; i < end; ++i) {
      for (const char* c : {"0", "1", "9", "a", "-"}) {
        if (names[i].size() == static_cast<size_t>(length) - 1) names.push_back(names[i] + c);
      }
    }
  }
  for (const auto& a : names) {
    for (const auto& b : names) {
      EXPECT_EQ(NaturalLess(a, b) + NaturalLess(b, a), a == b ? 0 : 1) << a << " " << b;
      if (!NaturalLess(a, b)) continue;
      for (const auto& c : names) {
        if (NaturalLess(b, c)) {
          ASSERT_TRUE(NaturalLess(a, c)) << a << " " << b << " " << c;
        }
      }
    }
  }
}

}  // namespace
}  // namespace pw::resource
