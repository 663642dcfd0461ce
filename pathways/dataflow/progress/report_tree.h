// ReportTree: a tree over the positions 0 .. size-1, known to all by arithmetic alone, with position 0 at the root.
//
// With fan-in f, positions that are not a multiple of f are leaves and hang on the multiple of f before them; multiples of f hang
// on multiples of f², and so on. So the subtree of every position is an interval that starts with it, up to 64 hosts with f = 64
// are one level, and 4096 are two. Pure; a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace pw::dataflow {

class ReportTree {
 public:
  // REQUIRES: size > 0, fan_in > 1.
  ReportTree(uint32_t size, uint32_t fan_in) : size_(size), fan_in_(fan_in) {}

  // nullopt: the root.
  std::optional<uint32_t> Parent(uint32_t position) const {
    if (position == 0) return std::nullopt;
    const uint64_t above = Reach(position) * fan_in_;
    return static_cast<uint32_t>(position / above * above);
  }
  // Ascending.
  std::vector<uint32_t> Children(uint32_t position) const {
    std::vector<uint32_t> children;
    const uint64_t reach = Reach(position);
    for (uint64_t step = 1; step < reach && position + step < size_; step *= fan_in_) {
      for (uint32_t k = 1; k < fan_in_ && position + k * step < size_; ++k)
        children.push_back(static_cast<uint32_t>(position + k * step));
    }
    return children;
  }
  // The subtree of `position` is [position, SubtreeEnd(position)).
  uint32_t SubtreeEnd(uint32_t position) const {
    return static_cast<uint32_t>(std::min<uint64_t>(size_, position + Reach(position)));
  }

 private:
  // How many positions its subtree would have if there were no end: a power of the fan-in.
  uint64_t Reach(uint32_t position) const {
    uint64_t reach = 1;
    while (position == 0 ? reach < size_ : position % (reach * fan_in_) == 0) reach *= fan_in_;
    return reach;
  }

  uint32_t size_;
  uint32_t fan_in_;
};

}  // namespace pw::dataflow
