// Random shapes and shardings for the property tests of this folder: tiled, partially replicated, replicated, permuted, uneven, with empty
// dimensions and of rank 0. Deterministic in the generator.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "pathways/base/log.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

// Our own, since the standard library's distributions differ between implementations.
inline int64_t Pick(std::mt19937& rng, int64_t low, int64_t high) { return low + static_cast<int64_t>(rng() % (high - low + 1)); }

inline Dims RandomDims(std::mt19937& rng) {
  Dims dims(Pick(rng, 0, 3));
  for (int64_t& dim : dims) dim = Pick(rng, 0, 9) == 0 ? 0 : Pick(rng, 1, 8);
  return dims;
}

template <class T>
void Shuffle(std::mt19937& rng, std::vector<T>& v) {
  for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[rng() % i]);
}

// Its devices are distinct, from `first_device` on, in random order.
inline Sharding RandomSharding(std::mt19937& rng, size_t rank, int first_device) {
  Tiles tiles;
  int64_t n = 1;
  if (Pick(rng, 0, 4) != 0) {
    for (size_t d = 0; d < rank; ++d) {
      tiles.counts.push_back(n <= 8 ? Pick(rng, 1, 4) : 1);
      n *= tiles.counts.back();
    }
  }
  const int64_t shards = n + (Pick(rng, 0, 1) == 0 ? 0 : n == 1 ? Pick(rng, 0, 5) : Pick(rng, 0, 2) * n / 2);
  for (int64_t i = 0; i < shards; ++i) tiles.tile_of_shard.push_back(static_cast<int32_t>(i < n ? i : Pick(rng, 0, n - 1)));
  if (Pick(rng, 0, 1) == 0) Shuffle(rng, tiles.tile_of_shard);
  std::vector<DeviceId> devices;
  for (int64_t i = 0; i < shards; ++i) devices.push_back(DeviceId(static_cast<int32_t>(first_device + i)));
  if (Pick(rng, 0, 1) == 0) Shuffle(rng, devices);
  auto sharding = Sharding::Tiled(std::move(devices), "", std::move(tiles));
  PW_CHECK(sharding.ok());
  return *std::move(sharding);
}

}  // namespace pw::buffers
