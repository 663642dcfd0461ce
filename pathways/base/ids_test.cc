#include "pathways/base/ids.h"

#include <type_traits>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace pw {
namespace {

TEST(IdsTest, KindsDoNotMix) {
  static_assert(!std::is_convertible_v<ArrayId, OpId>);
  static_assert(!std::is_convertible_v<uint64_t, ArrayId>);
  static_assert(std::is_trivially_copyable_v<ArrayId>);
}

TEST(IdsTest, OrdersHashesAndPrints) {
  EXPECT_LT(ArrayId(1), ArrayId(2));
  absl::flat_hash_set<ArrayId> set = {ArrayId(1), ArrayId(1), ArrayId(2)};
  EXPECT_EQ(set.size(), 2u);
  EXPECT_EQ(ToString(DeviceId(3)), "device 3");
}

}  // namespace
}  // namespace pw
