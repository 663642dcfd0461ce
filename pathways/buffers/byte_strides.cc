#include "pathways/buffers/byte_strides.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"

namespace pw::buffers {
namespace {

absl::Status Bad(absl::Span<const int64_t> dims, absl::Span<const int64_t> strides, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("byte strides [", absl::StrJoin(strides, ","), "] for shape [",
                                                 absl::StrJoin(dims, ","), "]: ", std::string(why)));
}

constexpr int64_t kMostGaps = 4096;  // bytes, beyond as many as the elements have

struct Sizes {
  int64_t dense_bytes;
  StridedExtent extent;
};

absl::StatusOr<Sizes> Measure(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> strides) {
  if (dims.size() != strides.size()) return Bad(dims, strides, "there must be one for each dimension");
  if (element_bytes <= 0) return Bad(dims, strides, "the element type has no bytes");
  Sizes sizes{element_bytes, {element_bytes, 0}};
  bool empty = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0) return Bad(dims, strides, "a dimension is negative");
    if (dims[d] == 0) {
      empty = true;
      continue;
    }
    int64_t reach = 0;  // from the first element of this dimension to its last
    bool overflow =
        strides[d] == std::numeric_limits<int64_t>::min() || __builtin_mul_overflow(dims[d] - 1, std::abs(strides[d]), &reach);
    overflow = overflow || __builtin_add_overflow(sizes.extent.bytes, reach, &sizes.extent.bytes);
    overflow = overflow || __builtin_mul_overflow(sizes.dense_bytes, dims[d], &sizes.dense_bytes);
    if (overflow) return Bad(dims, strides, "the size overflows 64 bits");
    if (strides[d] < 0) sizes.extent.origin += reach;
  }
  return empty ? Sizes{0, {}} : sizes;
}

absl::Status CheckLimits(int64_t have, int64_t need, int64_t result, int64_t max_bytes) {
  if (have != need)
    return absl::InvalidArgumentError(
        absl::StrCat("the host buffer has ", have, " bytes, but its shape and strides need ", need));
  if (result <= max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a host buffer of ", result, " bytes is over the limit of ", max_bytes, " bytes"));
}

}  // namespace

absl::StatusOr<StridedExtent> SpannedRegion(int element_bytes, absl::Span<const int64_t> dims,
                                            absl::Span<const int64_t> byte_strides) {
  PW_ASSIGN_OR_RETURN(const Sizes sizes, Measure(element_bytes, dims, byte_strides));
  return sizes.extent;
}

absl::StatusOr<int64_t> BytesToRead(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides) {
  PW_ASSIGN_OR_RETURN(const Sizes sizes, Measure(element_bytes, dims, byte_strides));
  if (sizes.extent.bytes - sizes.dense_bytes <= std::max(sizes.dense_bytes, kMostGaps)) return sizes.extent.bytes;
  return Bad(dims, byte_strides,
             absl::StrCat("they spread ", sizes.dense_bytes, " bytes of elements over ", sizes.extent.bytes,
                          ": read the array densely, and spread it in the program"));
}

bool IsDense(int element_bytes, absl::Span<const int64_t> dims, absl::Span<const int64_t> byte_strides) {
  if (dims.size() != byte_strides.size()) return false;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return true;
  int64_t expected = element_bytes;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    if (byte_strides[d] != expected || __builtin_mul_overflow(expected, dims[d], &expected)) return false;
  }
  return true;
}

absl::StatusOr<Bytes> Densify(Bytes data, int element_bytes, absl::Span<const int64_t> dims,
                              absl::Span<const int64_t> byte_strides, int64_t max_bytes) {
  PW_ASSIGN_OR_RETURN(const Sizes sizes, Measure(element_bytes, dims, byte_strides));
  PW_RETURN_IF_ERROR(CheckLimits(static_cast<int64_t>(data.size()), sizes.extent.bytes, sizes.dense_bytes, max_bytes));
  if (IsDense(element_bytes, dims, byte_strides)) return data;
  PW_ASSIGN_OR_RETURN(AlignedBytes dense, TryAllocateHostBuffer(sizes.dense_bytes));
  CopyBox(element_bytes, dims, data.data() + sizes.extent.origin, byte_strides, dense.data(), DenseStrides(element_bytes, dims));
  return std::move(dense).Freeze();
}

absl::StatusOr<Bytes> Stridify(Bytes dense, int element_bytes, absl::Span<const int64_t> dims,
                               absl::Span<const int64_t> byte_strides, int64_t max_bytes) {
  PW_ASSIGN_OR_RETURN(const Sizes sizes, Measure(element_bytes, dims, byte_strides));
  PW_RETURN_IF_ERROR(CheckLimits(static_cast<int64_t>(dense.size()), sizes.dense_bytes, sizes.extent.bytes, max_bytes));
  if (IsDense(element_bytes, dims, byte_strides)) return dense;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] > 1 && byte_strides[d] == 0) return Bad(dims, byte_strides, "elements would overlap");
  }
  PW_ASSIGN_OR_RETURN(AlignedBytes out, TryAllocateHostBuffer(sizes.extent.bytes));
  if (sizes.extent.bytes != sizes.dense_bytes) std::memset(out.data(), 0, out.size());
  CopyBox(element_bytes, dims, dense.data(), DenseStrides(element_bytes, dims), out.data() + sizes.extent.origin, byte_strides);
  return std::move(out).Freeze();
}

}  // namespace pw::buffers
