#include "pathways/storage/zarr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "pathways/base/testing/random.h"
#include "pathways/storage/testing.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

using buffers::Dims;
using buffers::Region;

// An array of 16-bit numbers, each of which is its own index.
class Numbered {
 public:
  explicit Numbered(Dims dims) : dims_(std::move(dims)) {}

  Bytes Cut(const Region& region) const {
    std::vector<uint16_t> data;
    Collect(region, 0, 0, &data);
    return Bytes::Copy({reinterpret_cast<const char*>(data.data()), data.size() * sizeof(uint16_t)});
  }
  // Writes all chunks.
  void Write(const Folder& folder, const Dims& chunks) const {
    const ZarrArray array{buffers::DType::kU16, dims_, chunks};
    Dims start(dims_.size(), 0);
    for (bool more = true; more;) {
      Region region{start, chunks};
      for (size_t d = 0; d < start.size(); ++d) region.size[d] = std::min(chunks[d], dims_[d] - start[d]);
      ASSERT_TRUE(WriteZarrChunk(folder, array, region, Cut(region)).ok());
      more = false;
      for (size_t d = start.size(); d-- > 0 && !more;) {
        more = (start[d] += chunks[d]) < dims_[d];
        if (!more) start[d] = 0;
      }
    }
  }

 private:
  void Collect(const Region& region, size_t d, int64_t index, std::vector<uint16_t>* data) const {
    if (d == dims_.size()) return data->push_back(static_cast<uint16_t>(index));
    for (int64_t i = 0; i < region.size[d]; ++i) Collect(region, d + 1, index * dims_[d] + region.start[d] + i, data);
  }

  const Dims dims_;
};

TEST(ZarrTest, ChunksOfOneCutAreReadInAnother) {
  Random random(7);
  for (int round = 0; round < 60; ++round) {
    Dims dims, chunks;
    for (uint32_t d = random.Below(4); d > 0; --d) {
      dims.push_back(1 + random.Below(6));
      chunks.push_back(1 + random.Below(static_cast<uint32_t>(dims.back()) + 1));
    }
    const TemporaryFolder folder;
    const ZarrArray array{buffers::DType::kU16, dims, chunks};
    const Numbered numbered(dims);
    numbered.Write(folder.root(), chunks);
    ASSERT_TRUE(CheckZarrChunks(folder.root(), array).ok());
    for (int cut = 0; cut < 20; ++cut) {
      Region region;
      for (int64_t size : dims) {
        region.start.push_back(random.Below(static_cast<uint32_t>(size)));
        region.size.push_back(random.Below(static_cast<uint32_t>(size - region.start.back()) + 1));
      }
      const int64_t slab_bytes = 2 + random.Below(40);
      const auto data = ReadZarrRegion(folder.root(), array, region, slab_bytes);
      ASSERT_TRUE(data.ok()) << data.status();
      ASSERT_EQ(data->view(), numbered.Cut(region).view())
          << absl::StrJoin(dims, ",") << " in " << absl::StrJoin(chunks, ",") << ", slabs of " << slab_bytes;
    }
  }
}

TEST(ZarrTest, ChunksThatAreMissingOrNotWholeAreNamed) {
  const TemporaryFolder folder;
  const ZarrArray array{buffers::DType::kU16, {5, 7}, {2, 3}};
  Numbered({5, 7}).Write(folder.root(), {2, 3});
  fs::resize_file(folder.path() / "2.0", 5);
  EXPECT_THAT(std::string(CheckZarrChunks(folder.root(), array).message()), HasSubstr("2.0 has 5 bytes, not 12"));
  fs::remove(folder.path() / "1.1");
  EXPECT_EQ(CheckZarrChunks(folder.root(), array).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadZarrRegion(folder.root(), array, {{0, 0}, {5, 7}}).status().message()), HasSubstr("1.1"));
}

// A client describes its files as it likes: here as two rows of 4 TiB, in a file without contents, of which it wants a few columns.
TEST(ZarrTest, AChunkOfAnySizeTakesLittleMemory) {
  const TemporaryFolder folder;
  const ZarrArray array{buffers::DType::kU8, {2, 4}, {2, int64_t{1} << 42}};
  ASSERT_TRUE(WriteWholeFile(folder.root(), "0.0", Bytes::Copy("abcd")).ok());
  fs::resize_file(folder.path() / "0.0", uintmax_t{1} << 43);
  const auto data = ReadZarrRegion(folder.root(), array, {{0, 1}, {2, 3}});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->view(), std::string_view("bcd\0\0\0", 6));
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
  EXPECT_FALSE(ParseZarrMetadata(R"({"shape": [2], "chunks": [2], "dtype": "<f4", "order": "F"})").ok());
}

}  // namespace
}  // namespace pw::storage
