// SortedKeysWhere: the keys of a table's entries that satisfy a predicate, in ascending order.
//
// For events that affect many entries, such as a lost host or an ended session. The order of a hash table differs between
// processes; a sorted order makes runs reproducible, as the simulator's seeds require.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace pw {

// `predicate` is called with each mapped value.
template <class Map, class Predicate>
std::vector<typename Map::key_type> SortedKeysWhere(const Map& map, Predicate predicate) {
  std::vector<typename Map::key_type> keys;
  for (const auto& [key, value] : map) {
    if (predicate(value)) keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Removes the entries that satisfy the predicate, and returns their values in the same order.
template <class Map, class Predicate>
std::vector<typename Map::mapped_type> TakeWhere(Map& map, Predicate predicate) {
  std::vector<typename Map::mapped_type> taken;
  for (const auto& key : SortedKeysWhere(map, predicate)) {
    const auto it = map.find(key);
    taken.push_back(std::move(it->second));
    map.erase(it);
  }
  return taken;
}

template <class Map>
std::vector<typename Map::key_type> SortedKeys(const Map& map) {
  return SortedKeysWhere(map, [](const auto&) { return true; });
}

}  // namespace pw
