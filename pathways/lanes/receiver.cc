#include "pathways/lanes/receiver.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::lanes {

void Receiver::Expect(uint64_t name, AlignedBytes memory) {
  receive_buffers_->Expect(name, {memory.owner(), memory.data()}, memory.size());
  coming_.emplace(name, Coming{std::move(memory)});
}

size_t Receiver::received(uint64_t name) const {
  auto it = coming_.find(name);
  return it == coming_.end() ? 0 : it->second.received;
}

absl::StatusOr<bool> Receiver::Add(uint64_t name, uint64_t offset, uint64_t total_bytes, Bytes part) {
  auto it = coming_.find(name);
  if (it == coming_.end()) return absl::NotFoundError(absl::StrCat("nobody waits for bytes with the name ", name));
  Coming& coming = it->second;
  const size_t size = coming.memory.size();
  if (total_bytes != size || offset != coming.received || part.size() > size - coming.received) {
    return absl::InvalidArgumentError(absl::StrCat(part.size(), " bytes at ", offset, " of ", total_bytes,
                                                   " came where those at ", coming.received, " of ", size, " were due"));
  }
  uint8_t* const place = coming.memory.data() + coming.received;
  coming.received += part.size();
  if (part.size() == size && part.data() != place)
    coming.whole = std::move(part);
  else if (part.data() != place && !part.empty())
    std::memcpy(place, part.data(), part.size());
  return coming.received == size;
}

Bytes Receiver::Take(uint64_t name) {
  receive_buffers_->Withdraw(name);
  auto node = coming_.extract(name);
  Coming& coming = node.mapped();
  return coming.whole.empty() ? std::move(coming.memory).Freeze() : std::move(coming.whole);
}

void Receiver::Drop(uint64_t name) {
  receive_buffers_->Withdraw(name);
  coming_.erase(name);
}

void Receiver::Restart(uint64_t name) {
  auto it = coming_.find(name);
  if (it == coming_.end()) return;
  AlignedBytes& memory = it->second.memory;
  receive_buffers_->Expect(name, {memory.owner(), memory.data()}, memory.size(), it->second.received);
}

void Receiver::Rewind(uint64_t name) {
  auto it = coming_.find(name);
  if (it == coming_.end()) return;
  it->second.received = 0;
  Restart(name);
}

}  // namespace pw::lanes
