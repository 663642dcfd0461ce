#include "pathways/buffers/region_copy.h"

#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "pathways/buffers/testing/random_arrays.h"

namespace pw::buffers {
namespace {

using absl::StatusCode;
constexpr int64_t kFar = std::numeric_limits<int64_t>::max();

TEST(RegionCopyTest, DenseRegionsAgreeWithANaiveLoop) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    const size_t rank = Pick(rng, 0, 4);
    const int bytes = kElementBytes[Pick(rng, 0, 5)];
    Dims from_dims, to_dims;
    Region from_region, to_region;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t size = Pick(rng, 0, 12) == 0 ? 0 : Pick(rng, 1, 6);
      for (auto [dims, region] : {std::pair{&from_dims, &from_region}, std::pair{&to_dims, &to_region}}) {
        const bool whole = Pick(rng, 0, 1) == 0;
        region->start.push_back(whole ? 0 : Pick(rng, 0, 3));
        region->size.push_back(size);
        dims->push_back(region->start[d] + size + (whole ? 0 : Pick(rng, 0, 3)));
      }
    }
    const Dims from_strides = DenseStrides(bytes, from_dims), to_strides = DenseStrides(bytes, to_dims);
    const std::string from = RandomBytes(rng, (Region{{}, from_dims}).elements() * bytes);
    std::string to = RandomBytes(rng, (Region{{}, to_dims}).elements() * bytes), expected = to;
    ForEachIndex(from_region.size, [&](const Dims& at) {
      std::memcpy(expected.data() + Dot(to_region.start, to_strides) + Dot(at, to_strides),
                  from.data() + Dot(from_region.start, from_strides) + Dot(at, from_strides), bytes);
    });
    const absl::Status status = CopyDenseRegion(bytes, reinterpret_cast<const uint8_t*>(from.data()), from_dims, from_region,
                                                reinterpret_cast<uint8_t*>(to.data()), to_dims, to_region);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(to, expected);
  }
}

TEST(RegionCopyTest, RefusesRegionsOutsideTheirArrays) {
  uint8_t byte = 0;
  auto copy = [&](const Dims& dims, const Region& from, const Region& to) {
    return CopyDenseRegion(1, &byte, dims, from, &byte, dims, to).code();
  };
  const Region good{{0}, {1}};
  for (const Region& bad :
       {Region{{1}, {1}}, {{0}, {2}}, {{-1}, {1}}, {{0}, {-1}}, {{kFar}, {kFar}}, {{}, {}}, {{0, 0}, {1, 1}}}) {
    EXPECT_EQ(copy({1}, bad, good), StatusCode::kInvalidArgument);
    EXPECT_EQ(copy({1}, good, bad), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(copy({1}, good, {{0}, {0}}), StatusCode::kInvalidArgument);
}

TEST(RegionCopyTest, FindsTheBoxesWhoseElementsAreContiguous) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    Dims dims, start, size;
    for (int64_t d = Pick(rng, 0, 4); d > 0; --d) {
      const bool whole = Pick(rng, 0, 1) == 0;
      size.push_back(Pick(rng, 1, 3));
      start.push_back(whole ? 0 : Pick(rng, 0, 2));
      dims.push_back(start.back() + size.back() + (whole ? 0 : Pick(rng, 0, 2)));
    }
    const Dims strides = DenseStrides(1, dims);
    int64_t expected = Dot(start, strides), next = expected;
    bool contiguous = true;
    ForEachIndex(size, [&](const Dims& at) { contiguous = contiguous && Dot(start, strides) + Dot(at, strides) == next++; });
    const std::optional<int64_t> found = ContiguousStart(dims, start, size);
    ASSERT_EQ(found, contiguous ? std::optional<int64_t>(expected) : std::nullopt);
  }
}

}  // namespace
}  // namespace pw::buffers
