#include "pathways/net/in_memory/memory_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::net {

absl::StatusOr<std::string> MemoryRegistry::Listen(Address address, std::shared_ptr<Listening> listening) {
  std::vector<Waiter> due;
  std::string name;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const bool any_port = address.kind == Address::Kind::kTcp && address.port == 0;
    do {
      if (any_port) address.port = next_port_++;
      name = ToString(address);
    } while (any_port && listening_.contains(name));
    if (!listening_.emplace(name, listening).second) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot listen on ", name, ": the address is in use; stop the listener that has it, or choose another"));
    }
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->second.address != name) {
        ++it;
        continue;
      }
      due.push_back(std::move(it->second.waiter));
      it = waiting_.erase(it);
    }
  }
  for (const Waiter& waiter : due) waiter(listening);
  return name;
}

void MemoryRegistry::StopListening(const std::string& address, const Listening* listening) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = listening_.find(address);
  if (it != listening_.end() && it->second.get() == listening) listening_.erase(it);
}

uint64_t MemoryRegistry::WaitFor(const std::string& address, const void* owner, Waiter waiter) {
  std::shared_ptr<Listening> found;
  uint64_t id;
  {
    std::lock_guard<std::mutex> lock(mu_);
    id = next_waiter_++;
    const auto it = listening_.find(address);
    if (it == listening_.end()) {
      waiting_.emplace(id, Waiting{address, owner, std::move(waiter)});
      return id;
    }
    found = it->second;
  }
  waiter(found);
  return id;
}

void MemoryRegistry::GiveUp(uint64_t waiter, const absl::Status& status) {
  Waiter due;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = waiting_.find(waiter);
    if (it == waiting_.end()) return;
    due = std::move(it->second.waiter);
    waiting_.erase(it);
  }
  due(status);
}

void MemoryRegistry::RemoveHost(const void* owner, const absl::Status& status) {
  std::vector<uint64_t> waiters;
  {
    std::lock_guard<std::mutex> lock(mu_);
    std::erase_if(listening_, [owner](const auto& entry) { return entry.second->owner == owner; });
    for (const auto& [id, waiting] : waiting_) {
      if (waiting.owner == owner) waiters.push_back(id);
    }
  }
  for (uint64_t waiter : waiters) GiveUp(waiter, status);
}

uint64_t MemoryRegistry::NextName() {
  std::lock_guard<std::mutex> lock(mu_);
  return next_name_++;
}

}  // namespace pw::net
