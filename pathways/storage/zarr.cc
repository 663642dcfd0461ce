#include "pathways/storage/zarr.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/json/json.h"

namespace pw::storage {
namespace {

using buffers::Dims;
using buffers::DType;
using buffers::Region;

constexpr std::pair<DType, const char*> kNames[] = {
    {DType::kPred, "|b1"}, {DType::kS8, "|i1"},  {DType::kS16, "<i2"}, {DType::kS32, "<i4"},   {DType::kS64, "<i8"},
    {DType::kU8, "|u1"},   {DType::kU16, "<u2"}, {DType::kU32, "<u4"}, {DType::kU64, "<u8"},   {DType::kF16, "<f2"},
    {DType::kF32, "<f4"},  {DType::kF64, "<f8"}, {DType::kC64, "<c8"}, {DType::kC128, "<c16"}, {DType::kBF16, "bfloat16"},
};

std::string ChunkName(const Dims& index) { return index.empty() ? "0" : absl::StrJoin(index, "."); }

// A box of a dense row-major array in memory or in a file.
struct Box {
  absl::Span<const int64_t> dims;   // of the array
  absl::Span<const int64_t> start;  // of the box

  // The array and the box without the first dimension.
  Box Inner() const { return {dims.subspan(1), start.subspan(1)}; }
  int64_t RowElements() const { return std::accumulate(dims.begin() + 1, dims.end(), int64_t{1}, std::multiplies<int64_t>()); }
};

// Reads boxes of a chunk into memory. Takes at most `slab_bytes` of further memory, for any shape of the chunk.
class BoxReader {
 public:
  BoxReader(ReadChunk read, int element_bytes, int64_t slab_bytes)
      : read_(std::move(read)), width_(element_bytes), slab_bytes_(slab_bytes) {}

  // Copies a box of `size` from the array that begins at `offset` in the file to the array at `out`.
  absl::Status Read(absl::Span<const int64_t> size, int64_t offset, const Box& from, uint8_t* out, const Box& to) const {
    const auto first = buffers::ContiguousStart(from.dims, from.start, size),
               target = buffers::ContiguousStart(to.dims, to.start, size);
    if (first.has_value() && target.has_value()) {
      const int64_t elements = std::accumulate(size.begin(), size.end(), int64_t{1}, std::multiplies<int64_t>());
      return read_(offset + *first * width_, absl::MakeSpan(out + *target * width_, static_cast<size_t>(elements * width_)));
    }
    // Several elements, so there is a first dimension.
    const int64_t row_bytes = from.RowElements() * width_;
    return row_bytes <= slab_bytes_ ? ReadInSlabs(size, offset, from, out, to) : ReadRows(size, offset, from, out, to);
  }

 private:
  // Reads whole rows, as many at once as fit a slab.
  absl::Status ReadInSlabs(absl::Span<const int64_t> size, int64_t offset, const Box& from, uint8_t* out, const Box& to) const {
    const int64_t row_bytes = from.RowElements() * width_, most_rows = slab_bytes_ / row_bytes;
    PW_ASSIGN_OR_RETURN(AlignedBytes slab, TryAllocateHostBuffer(std::min(most_rows, size[0]) * row_bytes));
    Dims rows(size.begin(), size.end()), slab_dims(from.dims.begin(), from.dims.end()),
        slab_start(from.start.begin(), from.start.end()), target(to.start.begin(), to.start.end());
    slab_start[0] = 0;
    for (int64_t row = 0; row < size[0]; row += most_rows) {
      rows[0] = slab_dims[0] = std::min(most_rows, size[0] - row);
      target[0] = to.start[0] + row;
      PW_RETURN_IF_ERROR(read_(offset + (from.start[0] + row) * row_bytes,
                               absl::MakeSpan(slab.data(), static_cast<size_t>(rows[0] * row_bytes))));
      buffers::CopyDenseBox(width_, rows, slab.data(), slab_dims, slab_start, out, to.dims, target);
    }
    return absl::OkStatus();
  }
  // Reads parts of each row.
  absl::Status ReadRows(absl::Span<const int64_t> size, int64_t offset, const Box& from, uint8_t* out, const Box& to) const {
    const int64_t row_bytes = from.RowElements() * width_, target_row_bytes = to.RowElements() * width_;
    for (int64_t row = 0; row < size[0]; ++row) {
      PW_RETURN_IF_ERROR(Read(size.subspan(1), offset + (from.start[0] + row) * row_bytes, from.Inner(),
                              out + (to.start[0] + row) * target_row_bytes, to.Inner()));
    }
    return absl::OkStatus();
  }

  const ReadChunk read_;
  const int width_;
  const int64_t slab_bytes_;
};

// Calls f(index) for every index of the box [first, last], row-major, until one fails.
template <class F>
absl::Status ForEachIndex(const Dims& first, const Dims& last, F f) {
  Dims index = first;
  for (;;) {
    PW_RETURN_IF_ERROR(f(index));
    int d = static_cast<int>(index.size()) - 1;
    while (d >= 0 && index[d] == last[d]) index[d] = first[d], --d;
    if (d < 0) return absl::OkStatus();
    ++index[d];
  }
}

Region ChunkRegion(const ZarrArray& array, const Dims& index) {
  Region region{index, array.chunks};
  for (size_t d = 0; d < index.size(); ++d) {
    region.start[d] *= array.chunks[d];
    region.size[d] = std::min(region.size[d], array.dims[d] - region.start[d]);
  }
  return region;
}

Region Relative(const Region& region, const Dims& origin) {
  Region relative = region;
  for (size_t d = 0; d < origin.size(); ++d) relative.start[d] -= origin[d];
  return relative;
}

}  // namespace

absl::StatusOr<std::string> ZarrMetadata(const ZarrArray& array) {
  for (const auto& [dtype, name] : kNames) {
    if (dtype != array.dtype) continue;
    return absl::StrCat(
        R"({"zarr_format": 2, "shape": [)", absl::StrJoin(array.dims, ", "), R"(], "chunks": [)",
        absl::StrJoin(array.chunks, ", "), R"(], "dtype": ")", name,
        R"(", "compressor": null, "fill_value": null, "filters": null, "order": "C", "dimension_separator": "."})");
  }
  return absl::UnimplementedError("arrays of this element type cannot be stored as zarr");
}

absl::StatusOr<ZarrArray> ParseZarrMetadata(absl::string_view json) {
  PW_ASSIGN_OR_RETURN(JsonObject object, ParseJson(json));
  ZarrArray array;
  PW_ASSIGN_OR_RETURN(array.dims, NumbersField(object, "shape"));
  PW_ASSIGN_OR_RETURN(array.chunks, NumbersField(object, "chunks"));
  PW_ASSIGN_OR_RETURN(std::string dtype, StringField(object, "dtype"));
  for (const auto& [known, name] : kNames) {
    if (dtype == name) array.dtype = known;
  }
  auto is_null = [&](const char* field) {
    const JsonValue* value = FindField(object, field);
    return value == nullptr || value->has_null_value();
  };
  auto is_or_lacks = [&](const char* field, absl::string_view text) {
    const JsonValue* value = FindField(object, field);
    return value == nullptr || value->string_value() == text;
  };
  const bool dots = is_or_lacks("dimension_separator", "."), row_major = is_or_lacks("order", "C");
  if (array.dtype == DType::kInvalid || !is_null("compressor") || !is_null("filters") || !dots || !row_major) {
    return absl::UnimplementedError(
        "only plain zarr v2 arrays can be read: a numeric type, row-major, no compressor, no filters, '.' between indices");
  }
  PW_RETURN_IF_ERROR(buffers::DenseBytes(array.dtype, array.dims).status());
  PW_RETURN_IF_ERROR(buffers::DenseBytes(array.dtype, array.chunks).status());
  if (array.chunks.size() != array.dims.size() || std::count(array.chunks.begin(), array.chunks.end(), 0) > 0) {
    return absl::InvalidArgumentError("a zarr array has chunks that do not fit its shape");
  }
  return array;
}

OpenChunk ChunksIn(const Folder& directory) {
  return [directory](const std::string& file, int64_t bytes) -> absl::StatusOr<ReadChunk> {
    PW_ASSIGN_OR_RETURN(PartsOfFile parts, PartsOfFile::Open(directory, file, bytes));
    auto shared = std::make_shared<const PartsOfFile>(std::move(parts));
    return [shared](int64_t offset, absl::Span<uint8_t> out) { return shared->Read(offset, out); };
  };
}

absl::Status CheckZarrChunks(const Folder& directory, const ZarrArray& array) {
  return CheckZarrChunks(ChunksIn(directory), array);
}

absl::Status WriteZarrChunk(const Folder& directory, const ZarrArray& array, const Region& region, const Bytes& data) {
  return WriteZarrChunk([&](const std::string& file, const Bytes& chunk) { return WriteWholeFile(directory, file, chunk); },
                        array, region, data);
}

absl::StatusOr<Bytes> ReadZarrRegion(const Folder& directory, const ZarrArray& array, const Region& region, int64_t slab_bytes) {
  return ReadZarrRegion(ChunksIn(directory), array, region, slab_bytes);
}

absl::Status CheckZarrChunks(const OpenChunk& open, const ZarrArray& array) {
  PW_ASSIGN_OR_RETURN(const int64_t chunk_bytes, buffers::DenseBytes(array.dtype, array.chunks));
  PW_ASSIGN_OR_RETURN(const int64_t bytes, buffers::DenseBytes(array.dtype, array.dims));
  if (bytes == 0) return absl::OkStatus();
  Dims last = array.dims;
  for (size_t d = 0; d < last.size(); ++d) last[d] = (last[d] - 1) / array.chunks[d];
  return ForEachIndex(Dims(last.size(), 0), last,
                      [&](const Dims& index) -> absl::Status { return open(ChunkName(index), chunk_bytes).status(); });
}

absl::Status WriteZarrChunk(const WriteChunk& write, const ZarrArray& array, const Region& region, const Bytes& data) {
  Dims index = region.start;
  for (size_t d = 0; d < index.size(); ++d) index[d] /= array.chunks[d];
  Bytes chunk = data;
  if (region.size != array.chunks) {
    PW_ASSIGN_OR_RETURN(const int64_t bytes, buffers::DenseBytes(array.dtype, array.chunks));
    PW_ASSIGN_OR_RETURN(AlignedBytes whole, TryAllocateHostBuffer(bytes));
    std::memset(whole.data(), 0, whole.size());
    const Region part{Dims(region.size.size(), 0), region.size};
    PW_RETURN_IF_ERROR(buffers::CopyDenseRegion(buffers::HostBytes(array.dtype), data.data(), region.size, part, whole.data(),
                                                array.chunks, part));
    chunk = std::move(whole).Freeze();
  }
  return write(ChunkName(index), chunk);
}

absl::StatusOr<Bytes> ReadZarrRegion(const OpenChunk& open, const ZarrArray& array, const Region& region, int64_t slab_bytes) {
  PW_ASSIGN_OR_RETURN(const int64_t bytes, buffers::DenseBytes(array.dtype, region.size));
  PW_ASSIGN_OR_RETURN(const int64_t chunk_bytes, buffers::DenseBytes(array.dtype, array.chunks));
  PW_ASSIGN_OR_RETURN(AlignedBytes out, TryAllocateHostBuffer(bytes));
  if (bytes == 0) return std::move(out).Freeze();
  Dims first = region.start, last = region.start;
  for (size_t d = 0; d < first.size(); ++d) {
    first[d] /= array.chunks[d];
    last[d] = (last[d] + region.size[d] - 1) / array.chunks[d];
  }
  PW_RETURN_IF_ERROR(ForEachIndex(first, last, [&](const Dims& index) -> absl::Status {
    const Region held = ChunkRegion(array, index);
    const Region common = buffers::Intersect(held, region);
    PW_ASSIGN_OR_RETURN(ReadChunk read, open(ChunkName(index), chunk_bytes));
    const BoxReader reader(std::move(read), buffers::HostBytes(array.dtype), slab_bytes);
    const Region from = Relative(common, held.start), to = Relative(common, region.start);
    return reader.Read(common.size, 0, {array.chunks, from.start}, out.data(), {region.size, to.start});
  }));
  return std::move(out).Freeze();
}

}  // namespace pw::storage
