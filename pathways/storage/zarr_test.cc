#include "pathways/storage/zarr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "pathways/storage/testing.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using ::testing::HasSubstr;

TEST(ZarrTest, ChunksOfOneCutAreReadInAnother) {
  const TemporaryFolder folder;
  const ZarrArray array{buffers::DType::kU8, {5, 7}, {2, 3}};
  std::vector<uint8_t> whole(35);
  std::iota(whole.begin(), whole.end(), 1);
  auto cut = [&](const buffers::Region& region) {
    std::string data;
    for (int64_t i = 0; i < region.size[0]; ++i) {
      for (int64_t j = 0; j < region.size[1]; ++j) data.push_back(whole[(region.start[0] + i) * 7 + region.start[1] + j]);
    }
    return Bytes::FromString(std::move(data));
  };
  for (int64_t i = 0; i < 5; i += 2) {
    for (int64_t j = 0; j < 7; j += 3) {
      const buffers::Region region{{i, j}, {std::min<int64_t>(2, 5 - i), std::min<int64_t>(3, 7 - j)}};
      ASSERT_TRUE(WriteZarrChunk(folder.root(), array, region, cut(region)).ok());
    }
  }
  for (const buffers::Region& region : {buffers::Region{{0, 0}, {5, 7}}, {{1, 2}, {3, 4}}, {{4, 6}, {1, 1}}, {{0, 0}, {0, 7}}}) {
    auto data = ReadZarrRegion(folder.root(), array, region);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->view(), cut(region).view());
  }
  EXPECT_TRUE(CheckZarrChunks(folder.root(), array).ok());
  fs::resize_file(folder.path() / "2.0", 5);
  EXPECT_THAT(std::string(CheckZarrChunks(folder.root(), array).message()), HasSubstr("2.0 has 5 bytes, not 6"));
  fs::remove(folder.path() / "1.1");
  EXPECT_EQ(CheckZarrChunks(folder.root(), array).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadZarrRegion(folder.root(), array, {{0, 0}, {5, 7}}).status().message()), HasSubstr("1.1"));
}

TEST(ZarrTest, MetadataComesBack) {
  auto parsed = ParseZarrMetadata(*ZarrMetadata({buffers::DType::kBF16, {0, 3}, {1, 3}}));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->dtype, buffers::DType::kBF16);
  EXPECT_EQ(parsed->dims, (buffers::Dims{0, 3}));
  EXPECT_EQ(parsed->chunks, (buffers::Dims{1, 3}));
  EXPECT_FALSE(ZarrMetadata({buffers::DType::kToken, {}, {}}).ok());
  EXPECT_FALSE(ParseZarrMetadata("{}").ok());
  EXPECT_FALSE(ParseZarrMetadata(R"({"shape": [2], "chunks": [0], "dtype": "<f4"})").ok());
  EXPECT_FALSE(ParseZarrMetadata(R"({"shape": [2], "chunks": [2], "dtype": "<f4", "compressor": {"id": "blosc"}})").ok());
}

}  // namespace
}  // namespace pw::storage
