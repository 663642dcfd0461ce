#include "pathways/sim/world.h"

#include <algorithm>

namespace pw::sim {

void World::At(absl::Time when, Task event) { queue_.emplace(std::pair(std::max(when, now_), made_++), std::move(event)); }

bool World::RunUntil(absl::Time end, const std::function<bool()>& done) {
  if (done()) return true;
  while (!queue_.empty() && queue_.begin()->first.first <= end) {
    auto node = queue_.extract(queue_.begin());
    now_ = node.key().first;
    ++events_;
    std::move(node.mapped())();
    if (done()) return true;
  }
  now_ = std::max(now_, end);
  return false;
}

void World::Drop() {
  while (!queue_.empty()) std::exchange(queue_, {}).clear();
}

uint64_t World::Below(uint64_t bound) {
  // SplitMix64; the bias of the remainder is far below what a scenario could notice.
  random_ += 0x9e3779b97f4a7c15;
  uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) % bound;
}

absl::Duration World::Between(absl::Duration low, absl::Duration high) {
  const int64_t span = absl::ToInt64Nanoseconds(high - low);
  return span <= 0 ? low : low + absl::Nanoseconds(static_cast<int64_t>(Below(static_cast<uint64_t>(span) + 1)));
}

void World::Mix(uint64_t value) {
  // FNV-1a over the bytes of the time and the value.
  for (uint64_t word : {static_cast<uint64_t>(absl::ToUnixNanos(now_)), value}) {
    for (int i = 0; i < 8; ++i) hash_ = (hash_ ^ ((word >> (8 * i)) & 0xff)) * 0x100000001b3;
  }
}

void World::Mix(absl::string_view bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (char c : bytes) sum = (sum ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  Mix(sum);
}

}  // namespace pw::sim
