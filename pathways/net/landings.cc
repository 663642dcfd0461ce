#include "pathways/net/landings.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "pathways/net/map_in.h"

namespace pw::net {
namespace {

bool WriteAt(int file, uint64_t offset, const Bytes& data) {
  for (size_t written = 0; written < data.size();) {
    const ssize_t n = ::pwrite(file, data.data() + written, data.size() - written, static_cast<off_t>(offset + written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    written += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

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
  Place part = Next(transfer, offset, bytes, Way::kMemory);
  if (part.data != nullptr) MapIn(part.data, bytes);
  return part;
}

bool Landings::Put(uint64_t transfer, uint64_t offset, const Bytes& payload) {
  const Place part = Next(transfer, offset, payload.size(), Way::kFile);
  if (part.data == nullptr) return false;
  if (WriteAt(part.file, offset, payload)) return true;
  Withdraw(transfer);
  return false;
}

Place Landings::Next(uint64_t transfer, uint64_t offset, size_t bytes, Way way) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = landings_.find(transfer);
  if (it == landings_.end()) return {};
  Landing& landing = it->second;
  if ((landing.place.file >= 0 ? Way::kFile : Way::kMemory) != way) return {};
  if (offset != landing.taken || bytes > landing.size - landing.taken) return {};
  landing.taken += bytes;
  return {landing.place.owner, landing.place.data + offset, landing.place.file};
}

}  // namespace pw::net
