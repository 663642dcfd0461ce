#include "pathways/net/receive_buffers.h"

#include <utility>

#include "pathways/net/prefault_pages.h"

namespace pw::net {

void ReceiveBuffers::Expect(uint64_t transfer, Place place, size_t size, size_t taken) {
  std::lock_guard<std::mutex> lock(mu_);
  receive_buffers_[transfer] = {std::move(place), size, taken};
}

size_t ReceiveBuffers::Withdraw(uint64_t transfer) {
  Landing landing;  // dropped without the lock
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = receive_buffers_.find(transfer);
  if (it == receive_buffers_.end()) return 0;
  landing = std::move(it->second);
  receive_buffers_.erase(it);
  return landing.taken;
}

Place ReceiveBuffers::Take(uint64_t transfer, uint64_t offset, size_t bytes) {
  Place part = Next(transfer, offset, bytes);
  if (part.data != nullptr) PrefaultPages(part.data, bytes);
  return part;
}

Place ReceiveBuffers::Next(uint64_t transfer, uint64_t offset, size_t bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = receive_buffers_.find(transfer);
  if (it == receive_buffers_.end()) return {};
  Landing& landing = it->second;
  if (offset != landing.taken || bytes > landing.size - landing.taken) return {};
  landing.taken += bytes;
  return {landing.place.owner, landing.place.data + offset};
}

}  // namespace pw::net
