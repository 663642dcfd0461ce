// SortAndMerge: sorts values in ascending order and removes duplicates. Used for sets that are filled once and then only read: one sort
// replaces one tree node for each value.
#pragma once

#include <algorithm>
#include <vector>

namespace pw {

template <class T>
void SortAndMerge(std::vector<T>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace pw
