// HostSet: a set of hosts as intervals of their numbers, so that a whole cluster of any size is a few words. A value.
//
// Hosts have a position in the set, ascending: trees over hosts (progress/report_tree.h) are made of positions.
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
  // In any order; they may overlap. REQUIRES: first + count does not pass UINT32_MAX.
  explicit HostSet(std::vector<Interval> intervals);

  uint32_t size() const { return size_; }
  bool Contains(HostId host) const { return PositionOf(host).has_value(); }
  std::optional<uint32_t> PositionOf(HostId host) const;
  // REQUIRES: position < size()
  HostId At(uint32_t position) const;
  // Ascending, apart, none empty.
  const std::vector<Interval>& intervals() const { return intervals_; }

  HostSet Union(const HostSet& other) const;

  friend bool operator==(const HostSet& a, const HostSet& b) { return a.intervals_ == b.intervals_; }

 private:
  std::vector<Interval> intervals_;
  std::vector<uint32_t> before_;  // per interval: how many hosts come before it
  uint32_t size_ = 0;
};

}  // namespace pw::dataflow
