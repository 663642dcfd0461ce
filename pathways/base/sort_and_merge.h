// SortAndMerge: values in ascending order, each once. It is how a set is made here that is filled at one time and only read then: one
// sort for all that is in it, and no node of a tree for each.
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
