#include "pathways/buffers/dtype.h"

#include <set>

#include "gtest/gtest.h"

namespace pw::buffers {
namespace {

TEST(DTypeTest, KnowsSizesAndNames) {
  EXPECT_EQ(HostBytes(DType::kF32), 4);
  EXPECT_EQ(HostBytes(DType::kC128), 16);
  EXPECT_EQ(HostBytes(DType::kBF16), 2);
  EXPECT_EQ(HostBytes(DType::kPred), 1);
  EXPECT_EQ(Name(DType::kBF16), "bf16");
  EXPECT_EQ(Name(DType::kF8E4M3FN), "f8e4m3fn");
}

TEST(DTypeTest, NarrowTypesTakeAWholeByte) {
  for (DType t : {DType::kS1, DType::kU1, DType::kS2, DType::kU2, DType::kS4, DType::kU4, DType::kF4E2M1FN})
    EXPECT_EQ(HostBytes(t), 1);
}

TEST(DTypeTest, OnADeviceTheyShareIt) {
  EXPECT_EQ(DeviceBits(DType::kF4E2M1FN), 4);
  EXPECT_EQ(DeviceBits(DType::kU2), 2);
  EXPECT_EQ(DeviceBits(DType::kS1), 1);
  EXPECT_EQ(DeviceBits(DType::kPred), 8);
  EXPECT_EQ(DeviceBits(DType::kC128), 128);
}

TEST(DTypeTest, TypesWithoutElementsHaveNoBytes) {
  for (DType t : {DType::kToken, DType::kOpaque, DType::kString, DType::kInvalid}) EXPECT_EQ(HostBytes(t), 0);
}

TEST(DTypeTest, NumbersNameTypesOrAreRefused) {
  std::set<std::string_view> names;
  int known = 0;
  for (int32_t n = -5; n < 200; ++n) {
    auto t = DTypeFromNumber(n);
    if (!t.ok()) {
      EXPECT_EQ(t.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++known;
    EXPECT_EQ(static_cast<int32_t>(*t), n);
    EXPECT_TRUE(names.insert(Name(*t)).second) << Name(*t);
  }
  EXPECT_EQ(known, 35);
  EXPECT_FALSE(DTypeFromNumber(0).ok());   // invalid
  EXPECT_FALSE(DTypeFromNumber(13).ok());  // xla's tuple
  EXPECT_FALSE(DTypeFromNumber(34).ok());  // xla's buffer
}

}  // namespace
}  // namespace pw::buffers
