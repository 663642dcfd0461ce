// Region copies and byte strides against a loop over single elements.
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/byte_strides.h"
#include "pathways/buffers/random_sharding.h"
#include "pathways/buffers/region_copy.h"

namespace pw::buffers {
namespace {

using testing::HasSubstr;
using absl::StatusCode;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int kElementBytes[] = {1, 2, 3, 4, 8, 16};

// Calls f with every index of the box.
template <class F>
void ForEachIndex(const Dims& size, F f) {
  for (int64_t s : size) {
    if (s == 0) return;
  }
  Dims at(size.size(), 0);
  while (true) {
    f(at);
    size_t d = size.size();
    while (d > 0 && at[d - 1] + 1 == size[d - 1]) at[--d] = 0;
    if (d == 0) return;
    ++at[d - 1];
  }
}

int64_t Dot(const Dims& a, const Dims& b) { return std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0}); }

// Strides of some order of the dimensions, some of them negative, with gaps between elements and between rows.
Dims RandomStrides(std::mt19937& rng, int element_bytes, const Dims& dims) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (Pick(rng, 0, 2) != 0) Shuffle(rng, order);
  Dims strides(dims.size());
  int64_t stride = element_bytes + (Pick(rng, 0, 3) == 0 ? Pick(rng, 1, 5) : 0);
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = Pick(rng, 0, 3) == 0 ? -stride : stride;
    stride = stride * std::max<int64_t>(dims[order[i]], 1) + (Pick(rng, 0, 3) == 0 ? Pick(rng, 1, 5) : 0);
  }
  return strides;
}

std::string RandomBytes(std::mt19937& rng, size_t n) {
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(1 + rng() % 255);
  return bytes;
}

TEST(RegionCopyTest, StridedRoundTripsAgreeWithANaiveLoop) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    Dims dims = RandomDims(rng);
    if (Pick(rng, 0, 3) == 0) dims.push_back(Pick(rng, 30, 70));  // several blocks
    const int bytes = kElementBytes[Pick(rng, 0, 5)];
    const Dims strides = RandomStrides(rng, bytes, dims), dense_strides = DenseStrides(bytes, dims);
    const StridedExtent extent = *SpannedRegion(bytes, dims, strides);
    const Bytes strided = Bytes::FromString(RandomBytes(rng, extent.bytes));
    auto dense = Densify(strided, bytes, dims, strides, kMax);
    ASSERT_TRUE(dense.ok()) << dense.status();
    std::string only_elements(extent.bytes, '\0');
    int64_t elements = 0;
    ForEachIndex(dims, [&](const Dims& at) {
      ++elements;
      const int64_t offset = extent.origin + Dot(at, strides);
      ASSERT_GE(offset, 0);
      ASSERT_LE(offset + bytes, extent.bytes);
      ASSERT_EQ(std::memcmp(dense->data() + Dot(at, dense_strides), strided.data() + offset, bytes), 0);
      std::memcpy(only_elements.data() + offset, strided.data() + offset, bytes);
    });
    ASSERT_EQ(static_cast<int64_t>(dense->size()), elements * bytes);
    auto back = Stridify(*dense, bytes, dims, strides, kMax);
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(std::string(back->view()), only_elements);
    if (IsDense(bytes, dims, strides)) {
      ASSERT_EQ(dense->data(), strided.data());
    }
  }
}

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
  for (const Region& bad : {Region{{1}, {1}}, {{0}, {2}}, {{-1}, {1}}, {{0}, {-1}}, {{kMax}, {kMax}}, {{}, {}}, {{0, 0}, {1, 1}}}) {
    EXPECT_EQ(copy({1}, bad, good), StatusCode::kInvalidArgument);
    EXPECT_EQ(copy({1}, good, bad), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(copy({1}, good, {{0}, {0}}), StatusCode::kInvalidArgument);
}

TEST(ByteStridesTest, SpansTheSmallestRegion) {
  EXPECT_EQ(*SpannedRegion(4, {2, 3}, {12, 4}), (StridedExtent{24, 0}));
  EXPECT_EQ(*SpannedRegion(4, {2, 3}, {4, 8}), (StridedExtent{24, 0}));     // Fortran
  EXPECT_EQ(*SpannedRegion(4, {2, 3}, {-12, 4}), (StridedExtent{24, 12}));  // upside down
  EXPECT_EQ(*SpannedRegion(4, {2, 3}, {0, 4}), (StridedExtent{12, 0}));     // broadcast
  EXPECT_EQ(*SpannedRegion(4, {2, 3}, {100, 4}), (StridedExtent{112, 0}));
  EXPECT_EQ(*SpannedRegion(8, {}, {}), (StridedExtent{8, 0}));
  EXPECT_EQ(*SpannedRegion(8, {0, 3}, {kMax, -5}), (StridedExtent{0, 0}));
}

TEST(ByteStridesTest, RefusesWhatOverflows) {
  const int64_t min = std::numeric_limits<int64_t>::min();
  const std::vector<std::pair<Dims, Dims>> bad = {{{2}, {min}},       {{2}, {kMax}},         {{kMax}, {2}},           {{kMax}, {0}},
                                                  {{3}, {kMax / 2}},  {{-1}, {4}},           {{2}, {}},               {{}, {4}},
                                                  {{2, 2}, {kMax / 2 + 1, kMax / 2 + 1}},   {{1 << 30, 1 << 30, 8}, {0, 0, 0}}};
  for (const auto& [dims, strides] : bad) {
    EXPECT_EQ(SpannedRegion(4, dims, strides).status().code(), StatusCode::kInvalidArgument) << testing::PrintToString(dims);
  }
  EXPECT_FALSE(SpannedRegion(0, {2}, {0}).ok());
}

TEST(ByteStridesTest, ChecksSizesBeforeTakingMemory) {
  const Bytes four = Bytes::Copy("abcd");
  // A broadcast of four bytes to a terabyte, and four bytes spread over one.
  EXPECT_EQ(Densify(four, 4, {int64_t{1} << 38}, {0}, 1 << 30).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Stridify(four, 2, {2}, {int64_t{1} << 40}, 1 << 30).status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Densify(four, 4, {2}, {4}, kMax).status().message()),
              HasSubstr("the host buffer has 4 bytes, but its shape and strides need 8"));
  EXPECT_EQ(Stridify(four, 1, {2}, {1}, kMax).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Stridify(four, 1, {4}, {0}, kMax).status().message()), HasSubstr("elements would overlap"));
  EXPECT_EQ(Densify(Bytes::Copy("ab"), 1, {2, 2}, {0, 1}, kMax)->view(), "abab");
  EXPECT_EQ(Densify(Bytes::Copy("abcd"), 1, {4}, {-1}, kMax)->view(), "dcba");
  EXPECT_TRUE(Densify(Bytes(), 4, {0, 3}, {12, 4}, 0)->empty());
}

TEST(ByteStridesTest, DimensionsOfSizeOneDoNotMatter) {
  EXPECT_TRUE(IsDense(4, {1, 3, 1}, {999, 4, -7}));
  EXPECT_TRUE(IsDense(4, {}, {}));
  EXPECT_TRUE(IsDense(4, {5, 0}, {1, 1}));
  EXPECT_FALSE(IsDense(4, {2, 3}, {4, 8}));
  EXPECT_FALSE(IsDense(4, {2}, {-4}));
}

}  // namespace
}  // namespace pw::buffers
