// SequenceSet: a set of numbers from 1 on, such as the sequence numbers seen so far. Numbers that arrive nearly in order take next
// to no memory. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

namespace pw::dataflow {

class SequenceSet {
 public:
  // Returns false if the number was in the set already, as 0 always is.
  bool Insert(uint64_t sequence) {
    if (sequence <= below_ || !beyond_.insert(sequence).second) return false;
    Compact();
    return true;
  }
  bool Contains(uint64_t sequence) const { return sequence <= below_ || beyond_.count(sequence) > 0; }
  // Inserts all numbers up to and including `sequence`.
  void InsertUpTo(uint64_t sequence) {
    if (sequence <= below_) return;
    below_ = sequence;
    beyond_.erase(beyond_.begin(), beyond_.upper_bound(sequence));
    Compact();
  }
  // Returns how many numbers are stored one by one, because smaller ones are missing.
  size_t gaps() const { return beyond_.size(); }

 private:
  void Compact() {
    while (!beyond_.empty() && *beyond_.begin() == below_ + 1) {
      ++below_;
      beyond_.erase(beyond_.begin());
    }
  }

  uint64_t below_ = 0;  // all numbers up to and including this one are in the set
  std::set<uint64_t> beyond_;
};

}  // namespace pw::dataflow
