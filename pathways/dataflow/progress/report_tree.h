// ReportTree: the tree along which hosts add up or spread reports (edge_plan.h). Its nodes are the positions 0 .. size-1, with
// position 0 as the root; every host computes it by arithmetic alone.
//
// With fan-in f, a position that is not a multiple of f is a leaf; its parent is the multiple of f before it. Parents of multiples
// of f are multiples of f², and so on. So the subtree of every position is an interval that starts with it. With f = 64, up to 64
// hosts form one level, and up to 4096 two. Pure; a value.
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

  // Returns nullopt for the root.
  std::optional<uint32_t> Parent(uint32_t position) const {
    if (position == 0) return std::nullopt;
    const uint64_t above = Reach(position) * fan_in_;
    return static_cast<uint32_t>(position / above * above);
  }
  // Returns the children, ascending.
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
  // Returns the size of the position's subtree in a tree without end: a power of the fan-in.
  uint64_t Reach(uint32_t position) const {
    uint64_t reach = 1;
    while (position == 0 ? reach < size_ : position % (reach * fan_in_) == 0) reach *= fan_in_;
    return reach;
  }

  uint32_t size_;
  uint32_t fan_in_;
};

}  // namespace pw::dataflow
