// SequenceSet: which of the numbers 1, 2, 3, ... have been seen. What arrives nearly in order takes next to no memory. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

namespace pw::dataflow {

class SequenceSet {
 public:
  // False if it was there already. 0 is never new.
  bool Insert(uint64_t sequence) {
    if (sequence <= below_ || !beyond_.insert(sequence).second) return false;
    Compact();
    return true;
  }
  bool Contains(uint64_t sequence) const { return sequence <= below_ || beyond_.count(sequence) > 0; }
  // Everything up to and including `sequence` counts as seen from now on.
  void InsertUpTo(uint64_t sequence) {
    if (sequence <= below_) return;
    below_ = sequence;
    beyond_.erase(beyond_.begin(), beyond_.upper_bound(sequence));
    Compact();
  }
  // Numbers that are kept one by one, because smaller ones are missing.
  size_t gaps() const { return beyond_.size(); }

 private:
  void Compact() {
    while (!beyond_.empty() && *beyond_.begin() == below_ + 1) {
      ++below_;
      beyond_.erase(beyond_.begin());
    }
  }

  uint64_t below_ = 0;  // all up to and including this one have been seen
  std::set<uint64_t> beyond_;
};

}  // namespace pw::dataflow
