#include "pathways/worker/transfer/regions.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::worker {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 62;

std::vector<int64_t> RowMajorStrides(int element_bytes, absl::Span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t next = element_bytes;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = next;
    next *= dims[i];
  }
  return strides;
}

int64_t OffsetOf(absl::Span<const int64_t> strides, absl::Span<const int64_t> start) {
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) offset += strides[i] * start[i];
  return offset;
}

// Copies a box between two strided layouts, in runs of `run` bytes. Dimensions from `rank` on are inside a run.
void CopyStrided(size_t rank, absl::Span<const int64_t> size, int64_t run, const uint8_t* from,
                 absl::Span<const int64_t> from_strides, uint8_t* to, absl::Span<const int64_t> to_strides) {
  if (rank == 0) {
    std::memcpy(to, from, static_cast<size_t>(run));
    return;
  }
  std::vector<int64_t> index(rank, 0);
  for (;;) {
    std::memcpy(to, from, static_cast<size_t>(run));
    size_t d = rank;
    while (d-- > 0) {
      from += from_strides[d];
      to += to_strides[d];
      if (++index[d] < size[d]) break;
      from -= from_strides[d] * size[d];
      to -= to_strides[d] * size[d];
      index[d] = 0;
      if (d == 0) return;
    }
  }
}

}  // namespace

absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> dims) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0) return absl::InvalidArgumentError(absl::StrCat("a dimension of ", d, " elements"));
    if (d == 0) empty = true;
    if (d > 0 && n > kMostBytes / d) return absl::InvalidArgumentError("the shape has too many elements");
    if (d > 0) n *= d;
  }
  return empty ? 0 : n;
}

absl::StatusOr<int64_t> HostSize(buffers::DType dtype, absl::Span<const int64_t> dims) {
  PW_ASSIGN_OR_RETURN(const int64_t n, ElementCount(dims));
  const int width = buffers::HostBytes(dtype);
  if (width > 0 && n > kMostBytes / width) return absl::InvalidArgumentError("the shape has too many bytes");
  return n * width;
}

absl::StatusOr<int64_t> StridedSize(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides) {
  if (dims.size() != byte_strides.size()) {
    return absl::InvalidArgumentError(absl::StrCat(byte_strides.size(), " byte strides for ", dims.size(), " dimensions"));
  }
  PW_ASSIGN_OR_RETURN(const int64_t n, ElementCount(dims));
  if (n == 0) return 0;
  __int128 size = element_bytes;
  for (size_t i = 0; i < dims.size(); ++i) {
    const __int128 stride = byte_strides[i];
    size += (stride < 0 ? -stride : stride) * (dims[i] - 1);
    if (size > kMostBytes) return absl::InvalidArgumentError("the byte strides span too much memory");
  }
  return static_cast<int64_t>(size);
}

bool IsRowMajor(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides) {
  if (dims.size() != byte_strides.size()) return false;
  int64_t dense = element_bytes;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && byte_strides[i] != dense) return false;
    dense *= dims[i];
  }
  return true;
}

bool Contains(absl::Span<const int64_t> dims, absl::Span<const int64_t> start, absl::Span<const int64_t> size) {
  if (dims.size() != start.size() || dims.size() != size.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (start[i] < 0 || size[i] < 0 || start[i] > dims[i] || size[i] > dims[i] - start[i]) return false;
  }
  return true;
}

std::optional<int64_t> StretchStart(absl::Span<const int64_t> dims, absl::Span<const int64_t> start,
                                    absl::Span<const int64_t> size) {
  int64_t first = 0, stride = 1;
  bool ended = false;  // a dimension is not taken whole: all before it must have one element
  for (size_t i = dims.size(); i-- > 0;) {
    if (ended && size[i] != 1) return std::nullopt;
    ended = ended || size[i] != dims[i];
    first += start[i] * stride;
    stride *= dims[i];
  }
  return first;
}

void CopyBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_dims,
             absl::Span<const int64_t> from_start, uint8_t* to, absl::Span<const int64_t> to_dims,
             absl::Span<const int64_t> to_start) {
  for (int64_t d : size) {
    if (d == 0) return;
  }
  const std::vector<int64_t> from_strides = RowMajorStrides(element_bytes, from_dims);
  const std::vector<int64_t> to_strides = RowMajorStrides(element_bytes, to_dims);
  // Trailing dimensions that are whole on both sides join the run, and so does the one before them.
  size_t rank = size.size();
  int64_t run = element_bytes;
  while (rank > 0) {
    run *= size[rank - 1];
    --rank;
    if (size[rank] != from_dims[rank] || size[rank] != to_dims[rank]) break;
  }
  CopyStrided(rank, size, run, from + OffsetOf(from_strides, from_start), from_strides, to + OffsetOf(to_strides, to_start),
              to_strides);
}

Bytes ToStrides(int element_bytes, absl::Span<const int64_t> dims, const Bytes& dense, absl::Span<const int64_t> byte_strides) {
  const int64_t size = *StridedSize(element_bytes, dims, byte_strides);
  AlignedBytes result(static_cast<size_t>(size));
  if (size == 0) return std::move(result).Freeze();
  std::memset(result.data(), 0, result.size());  // gaps must not leak old memory contents
  int64_t first = 0;
  for (size_t i = 0; i < dims.size(); ++i) first += byte_strides[i] < 0 ? -byte_strides[i] * (dims[i] - 1) : 0;
  CopyStrided(dims.size(), dims, element_bytes, dense.data(), RowMajorStrides(element_bytes, dims), result.data() + first,
              byte_strides);
  return std::move(result).Freeze();
}

}  // namespace pw::worker
