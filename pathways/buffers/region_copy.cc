#include "pathways/buffers/region_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::buffers {
namespace {

constexpr int64_t kBlock = 32;  // 32 x 32 elements of 16 bytes fit a first-level cache

struct Loop {
  int64_t size;
  int64_t from;  // byte strides
  int64_t to;
};
using Loops = absl::InlinedVector<Loop, 6>;  // outermost first

// Returns the merged loops. An empty box gives a loop of size 0; dimensions of size 1 give none.
Loops OrderLoops(absl::Span<const int64_t> size, absl::Span<const int64_t> from, absl::Span<const int64_t> to) {
  Loops loops;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] != 1) loops.push_back({size[d], from[d], to[d]});
  }
  std::stable_sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return std::abs(a.to) > std::abs(b.to); });
  Loops merged;
  for (const Loop& inner : loops) {
    if (!merged.empty() && merged.back().to == inner.to * inner.size && merged.back().from == inner.from * inner.size) {
      merged.back() = {merged.back().size * inner.size, inner.from, inner.to};
    } else {
      merged.push_back(inner);
    }
  }
  return merged;
}

// If another dimension than the innermost is the most contiguous one in the source, makes it the second innermost: the two are then copied
// in blocks.
void BringSourceOrderIn(Loops& loops) {
  if (loops.size() < 2) return;
  auto closest = std::min_element(loops.begin(), loops.end(),
                                  [](const Loop& a, const Loop& b) { return std::abs(a.from) < std::abs(b.from); });
  if (closest == loops.end() - 1) return;
  std::rotate(closest, closest + 1, loops.end() - 1);
}

// Copies elements of kBytes bytes, or of `bytes` bytes if kBytes is 0.
template <int kBytes>
void CopyPlane(const Loop& outer, const Loop& inner, int bytes, const uint8_t* from, uint8_t* to) {
  for (int64_t i0 = 0; i0 < outer.size; i0 += kBlock) {
    const int64_t i_end = std::min(outer.size, i0 + kBlock);
    for (int64_t j0 = 0; j0 < inner.size; j0 += kBlock) {
      const int64_t j_end = std::min(inner.size, j0 + kBlock);
      for (int64_t i = i0; i < i_end; ++i) {
        for (int64_t j = j0; j < j_end; ++j) {
          std::memcpy(to + i * outer.to + j * inner.to, from + i * outer.from + j * inner.from, kBytes > 0 ? kBytes : bytes);
        }
      }
    }
  }
}

using PlaneCopier = void (*)(const Loop&, const Loop&, int, const uint8_t*, uint8_t*);

PlaneCopier CopierFor(int bytes) {
  switch (bytes) {
    case 1:
      return CopyPlane<1>;
    case 2:
      return CopyPlane<2>;
    case 4:
      return CopyPlane<4>;
    case 8:
      return CopyPlane<8>;
    case 16:
      return CopyPlane<16>;
    default:
      return CopyPlane<0>;
  }
}

// Calls f(from, to) with the offsets of every position of the loops.
template <class F>
void ForEachOffset(absl::Span<const Loop> loops, int64_t from, int64_t to, const F& f) {
  if (loops.empty()) return f(from, to);
  const Loop& loop = loops[0];
  for (int64_t i = 0; i < loop.size; ++i) ForEachOffset(loops.subspan(1), from + i * loop.from, to + i * loop.to, f);
}

absl::Status CheckInside(absl::Span<const int64_t> dims, const Region& region) {
  if (Contains(dims, region.start, region.size)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the region at [", absl::StrJoin(region.start, ","), "] of size [",
                                                 absl::StrJoin(region.size, ","), "] is not inside an array of shape [",
                                                 absl::StrJoin(dims, ","), "]"));
}

int64_t Offset(absl::Span<const int64_t> start, const Dims& strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < start.size(); ++d) offset += start[d] * strides[d];
  return offset;
}

}  // namespace

void CopyBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_strides,
             uint8_t* to, absl::Span<const int64_t> to_strides) {
  PW_CHECK(size.size() == from_strides.size() && size.size() == to_strides.size());
  if (std::find(size.begin(), size.end(), 0) != size.end()) return;
  Loops loops = OrderLoops(size, from_strides, to_strides);
  int64_t run = element_bytes;
  if (!loops.empty() && loops.back().from == element_bytes && loops.back().to == element_bytes) {
    run *= loops.back().size;
    loops.pop_back();
    ForEachOffset(loops, 0, 0, [&](int64_t f, int64_t t) { std::memcpy(to + t, from + f, run); });
    return;
  }
  BringSourceOrderIn(loops);
  while (loops.size() < 2) loops.insert(loops.begin(), {1, 0, 0});
  const Loop outer = loops[loops.size() - 2], inner = loops.back();
  const PlaneCopier copy = CopierFor(element_bytes);
  const absl::Span<const Loop> rest = absl::MakeSpan(loops).first(loops.size() - 2);
  ForEachOffset(rest, 0, 0, [&](int64_t f, int64_t t) { copy(outer, inner, element_bytes, from + f, to + t); });
}

Dims DenseStrides(int element_bytes, absl::Span<const int64_t> dims) {
  Dims strides(dims.size());
  int64_t stride = element_bytes;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(dims[d], 1);
  }
  return strides;
}

bool Contains(absl::Span<const int64_t> dims, absl::Span<const int64_t> start, absl::Span<const int64_t> size) {
  if (start.size() != dims.size() || size.size() != dims.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    // Compared by subtraction: a sum could overflow.
    if (start[d] < 0 || size[d] < 0 || start[d] > dims[d] || size[d] > dims[d] - start[d]) return false;
  }
  return true;
}

std::optional<int64_t> ContiguousStart(absl::Span<const int64_t> dims, absl::Span<const int64_t> start,
                                       absl::Span<const int64_t> size) {
  int64_t first = 0, stride = 1;
  bool ended = false;  // a dimension is not taken whole: all before it must have one element
  for (size_t d = dims.size(); d-- > 0;) {
    if (ended && size[d] != 1) return std::nullopt;
    ended = ended || size[d] != dims[d];
    first += start[d] * stride;
    stride *= dims[d];
  }
  return first;
}

void CopyDenseBox(int element_bytes, absl::Span<const int64_t> size, const uint8_t* from, absl::Span<const int64_t> from_dims,
                  absl::Span<const int64_t> from_start, uint8_t* to, absl::Span<const int64_t> to_dims,
                  absl::Span<const int64_t> to_start) {
  if (std::find(size.begin(), size.end(), 0) != size.end()) return;
  const Dims from_strides = DenseStrides(element_bytes, from_dims), to_strides = DenseStrides(element_bytes, to_dims);
  CopyBox(element_bytes, size, from + Offset(from_start, from_strides), from_strides, to + Offset(to_start, to_strides),
          to_strides);
}

absl::Status CopyDenseRegion(int element_bytes, const uint8_t* from, absl::Span<const int64_t> from_dims,
                             const Region& from_region, uint8_t* to, absl::Span<const int64_t> to_dims, const Region& to_region) {
  PW_RETURN_IF_ERROR(CheckInside(from_dims, from_region));
  PW_RETURN_IF_ERROR(CheckInside(to_dims, to_region));
  if (from_region.size != to_region.size) {
    return absl::InvalidArgumentError(absl::StrCat("cannot copy a region of size [", absl::StrJoin(from_region.size, ","),
                                                   "] to one of size [", absl::StrJoin(to_region.size, ","), "]"));
  }
  CopyDenseBox(element_bytes, from_region.size, from, from_dims, from_region.start, to, to_dims, to_region.start);
  return absl::OkStatus();
}

}  // namespace pw::buffers
