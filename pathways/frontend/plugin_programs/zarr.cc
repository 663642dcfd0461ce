#include "pathways/frontend/plugin_programs/zarr.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/try_allocate.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/frontend/plugin_programs/plugin_program.h"
#include "pathways/frontend/plugin_programs/storage.h"

namespace pw::frontend {
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
    auto it = object.fields().find(field);
    return it == object.fields().end() || it->second.has_null_value() || it->second.kind_case() == JsonValue::kNullValue;
  };
  auto separator = object.fields().find("dimension_separator");
  const bool dots = separator == object.fields().end() || separator->second.string_value() == ".";
  if (array.dtype == DType::kInvalid || !is_null("compressor") || !is_null("filters") || !dots) {
    return absl::UnimplementedError(
        "only plain zarr v2 arrays can be read: a numeric type, no compressor, no filters, '.' between indices");
  }
  PW_RETURN_IF_ERROR(buffers::DenseBytes(array.dtype, array.dims).status());
  PW_RETURN_IF_ERROR(buffers::DenseBytes(array.dtype, array.chunks).status());
  if (array.chunks.size() != array.dims.size() || std::count(array.chunks.begin(), array.chunks.end(), 0) > 0) {
    return absl::InvalidArgumentError("a zarr array has chunks that do not fit its shape");
  }
  return array;
}

absl::Status WriteZarrChunk(const StoredFolder& directory, const ZarrArray& array, const Region& region,
                            const Bytes& data) {
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
  return WriteWholeFile(directory, ChunkName(index), chunk);
}

absl::StatusOr<Bytes> ReadZarrRegion(const StoredFolder& directory, const ZarrArray& array, const Region& region) {
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
    PW_ASSIGN_OR_RETURN(const Bytes chunk, ReadWholeFile(directory, ChunkName(index), chunk_bytes));
    if (static_cast<int64_t>(chunk.size()) != chunk_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("chunk ", ChunkName(index), " of ", directory.path().string(), " has ",
                                                     chunk.size(), " bytes, not ", chunk_bytes));
    }
    const Region held = ChunkRegion(array, index);
    const Region common = buffers::Intersect(held, region);
    return buffers::CopyDenseRegion(buffers::HostBytes(array.dtype), chunk.data(), array.chunks, Relative(common, held.start),
                                    out.data(), region.size, Relative(common, region.start));
  }));
  return std::move(out).Freeze();
}

}  // namespace pw::frontend
