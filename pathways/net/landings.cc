#include "pathways/net/landings.h"

#include <utility>

#include "pathways/net/map_in.h"

namespace pw::net {

void Landings::Expect(uint64_t transfer, Place place, size_t size, size_t taken) {
  std::lock_guard<std::mutex> lock(mu_);
  landings_[transfer] = {std::move(place), size, taken};
}

size_t Landings::Withdraw(uint64_t transfer) {
  Landing landing;  // dropped without the lock
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = landings_.find(transfer);
  if (it == landings_.end()) return 0;
  landing = std::move(it->second);
  landings_.erase(it);
  return landing.taken;
}

Place Landings::Take(uint64_t transfer, uint64_t offset, size_t bytes) {
  Place part = Next(transfer, offset, bytes);
  if (part.data != nullptr) MapIn(part.data, bytes);
  return part;
}

Place Landings::Next(uint64_t transfer, uint64_t offset, size_t bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = landings_.find(transfer);
  if (it == landings_.end()) return {};
  Landing& landing = it->second;
  if (offset != landing.taken || bytes > landing.size - landing.taken) return {};
  landing.taken += bytes;
  return {landing.place.owner, landing.place.data + offset};
}

}  // namespace pw::net
