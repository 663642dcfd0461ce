// HostSet: a set of hosts, stored as intervals of their numbers, so that a cluster of any size takes a few words. A value.
//
// A host's position in the set is its rank by number. Trees over hosts (progress/report_tree.h) are trees of positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "pathways/base/ids.h"

namespace pw::dataflow {

class HostSet {
 public:
  struct Interval {
    HostId first;
    uint32_t count = 0;
    friend bool operator==(const Interval&, const Interval&) = default;
  };

  HostSet() = default;
  // Intervals may come in any order, and may overlap. REQUIRES: first + count does not pass UINT32_MAX.
  explicit HostSet(std::vector<Interval> intervals);

  uint32_t size() const { return size_; }
  bool Contains(HostId host) const { return PositionOf(host).has_value(); }
  std::optional<uint32_t> PositionOf(HostId host) const;
  // REQUIRES: position < size()
  HostId At(uint32_t position) const;
  // Ascending, not touching each other, none empty.
  const std::vector<Interval>& intervals() const { return intervals_; }

  HostSet Union(const HostSet& other) const;

  friend bool operator==(const HostSet& a, const HostSet& b) { return a.intervals_ == b.intervals_; }

 private:
  std::vector<Interval> intervals_;
  std::vector<uint32_t> before_;  // per interval: the number of hosts before it
  uint32_t size_ = 0;
};

}  // namespace pw::dataflow
