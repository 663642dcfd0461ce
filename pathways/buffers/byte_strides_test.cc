#include "pathways/buffers/byte_strides.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/testing/random_arrays.h"

namespace pw::buffers {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(ByteStridesTest, RoundTripsAgreeWithANaiveLoop) {
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
  const std::vector<std::pair<Dims, Dims>> bad = {{{2}, {min}},
                                                  {{2}, {kMax}},
                                                  {{kMax}, {2}},
                                                  {{kMax}, {0}},
                                                  {{3}, {kMax / 2}},
                                                  {{-1}, {4}},
                                                  {{2}, {}},
                                                  {{}, {4}},
                                                  {{2, 2}, {kMax / 2 + 1, kMax / 2 + 1}},
                                                  {{1 << 30, 1 << 30, 8}, {0, 0, 0}}};
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

TEST(ByteStridesTest, ReadsNoArrayThatIsMostlyGaps) {
  EXPECT_EQ(*BytesToRead(4, {2, 3}, {4, 8}), 24);
  EXPECT_EQ(*BytesToRead(4, {1000}, {8}), 7996);
  EXPECT_EQ(*BytesToRead(4, {2}, {4000}), 4004);
  EXPECT_EQ(*BytesToRead(4, {0, 2}, {1 << 30, 1 << 30}), 0);
  EXPECT_EQ(*BytesToRead(4, {1000}, {0}), 4);
  for (int64_t stride : {int64_t{5000}, int64_t{-5000}, int64_t{1} << 35}) {
    const absl::Status status = BytesToRead(4, {2}, {stride}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("they spread 8 bytes of elements over"));
  }
  EXPECT_EQ(BytesToRead(4, {1 << 20}, {16}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(BytesToRead(4, {2}, {kMax}).status().code(), StatusCode::kInvalidArgument);
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
