// Random shapes, strides and shardings for the property tests of this folder, and helpers of their models to visit single elements.
// Deterministic for a given generator.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/log.h"
#include "pathways/buffers/sharding.h"

namespace pw::buffers {

// Returns a number in [low, high]. The standard library's distributions differ between implementations.
inline int64_t Pick(std::mt19937& rng, int64_t low, int64_t high) { return low + static_cast<int64_t>(rng() % (high - low + 1)); }

// Includes rank 0 and empty dimensions.
inline Dims RandomDims(std::mt19937& rng) {
  Dims dims(Pick(rng, 0, 3));
  for (int64_t& dim : dims) dim = Pick(rng, 0, 9) == 0 ? 0 : Pick(rng, 1, 8);
  return dims;
}

template <class T>
void Shuffle(std::mt19937& rng, std::vector<T>& v) {
  for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[rng() % i]);
}

// Returns a tiled, partially replicated, replicated or permuted sharding over distinct devices, from `first_device` on, in random order.
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

inline constexpr int kElementBytes[] = {1, 2, 3, 4, 8, 16};

// Returns strides in a random order of the dimensions, some of them negative, with gaps between elements and between rows.
inline Dims RandomStrides(std::mt19937& rng, int element_bytes, const Dims& dims) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (Pick(rng, 0, 2) != 0) Shuffle(rng, order);
  Dims strides(dims.size());
  int64_t stride = element_bytes + (Pick(rng, 0, 3) == 0 ? Pick(rng, 1, 5) : 0);
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = Pick(rng, 0, 3) == 0 ? -stride : stride;
    stride = stride * std::max<int64_t>(dims[order[i]], 1) + (Pick(rng, 0, 3) == 0 ? Pick(rng, 1, 5) : 0);
  }
  return strides;
}

inline std::string RandomBytes(std::mt19937& rng, size_t n) {
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(1 + rng() % 255);
  return bytes;
}

// Calls f with every index of the box.
template <class F>
void ForEachIndex(const Dims& size, F f) {
  for (int64_t s : size) {
    if (s == 0) return;
  }
  Dims at(size.size(), 0);
  while (true) {
    f(at);
    size_t d = size.size();
    while (d > 0 && at[d - 1] + 1 == size[d - 1]) at[--d] = 0;
    if (d == 0) return;
    ++at[d - 1];
  }
}

inline int64_t Dot(const Dims& a, const Dims& b) { return std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0}); }

}  // namespace pw::buffers
