#include "pathways/net/shared/shared_pool.h"

#include <sys/file.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "pathways/base/memory/machine_memory.h"

namespace pw::net {
namespace {

bool IsNobodys(const SharedPages& pages) {
  return ::flock(pages.fd.get(), LOCK_EX | LOCK_NB) == 0 && ::flock(pages.fd.get(), LOCK_UN) == 0;
}

}  // namespace

KeptLimits KeptOfThisMachine() {
  const auto memory = static_cast<size_t>(MemoryOfMachine());
  return {.always = memory / 16, .at_most = memory / 4, .reserve = memory / 4};
}

SharedPages::~SharedPages() {
  if (base != nullptr) ::munmap(base, std::max<size_t>(size, 1));
}

std::optional<SharedPages> SharedPool::Take(size_t size, uint64_t owner) {
  std::lock_guard<std::mutex> lock(mu_);
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->owner != owner || it->pages.size != size || !IsNobodys(it->pages)) continue;
    SharedPages pages = std::move(it->pages);
    kept_.erase(it);
    bytes_ -= size;
    return pages;
  }
  return std::nullopt;
}

template <class Condition>
std::vector<SharedPages> SharedPool::Remove(Condition goes) {
  std::vector<SharedPages> removed;
  for (size_t i = 0; i < kept_.size();) {
    if (!goes(kept_[i])) {
      ++i;
      continue;
    }
    bytes_ -= kept_[i].pages.size;
    removed.push_back(std::move(kept_[i].pages));
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return removed;
}

bool SharedPool::MemoryIsShort() const { return static_cast<size_t>(AvailableMemory()) < limits_.reserve; }

size_t SharedPool::Limit() const {
  if (bytes_ <= limits_.always || MemoryIsShort()) return limits_.always;
  return std::max(limits_.always, limits_.at_most);
}

void SharedPool::Keep(SharedPages pages, uint64_t owner) {
  std::vector<SharedPages> dropped;  // unmapped without the lock
  std::lock_guard<std::mutex> lock(mu_);
  if (gone_.contains(owner)) return dropped.push_back(std::move(pages));
  bytes_ += pages.size;
  kept_.push_back({std::move(pages), owner});
  for (const size_t limit = Limit(); bytes_ > limit || kept_.size() > kMostFiles;) {
    bytes_ -= kept_.front().pages.size;
    dropped.push_back(std::move(kept_.front().pages));
    kept_.pop_front();
  }
}

void SharedPool::Sweep() {
  std::vector<SharedPages> dropped;  // unmapped without the lock
  std::lock_guard<std::mutex> lock(mu_);
  if (kept_.empty()) return;
  const int patience = MemoryIsShort() ? 2 : kPatientSweeps;
  dropped = Remove([patience](Kept& kept) {
    kept.idle = IsNobodys(kept.pages) ? kept.idle + 1 : 0;
    return kept.idle >= patience;
  });
}

void SharedPool::Forget(uint64_t owner) {
  std::vector<SharedPages> dropped;
  std::lock_guard<std::mutex> lock(mu_);
  if (in_use_.contains(owner)) gone_.insert(owner);
  dropped = Remove([owner](const Kept& kept) { return kept.owner == owner; });
}

void SharedPool::BeginUse(uint64_t owner) {
  std::lock_guard<std::mutex> lock(mu_);
  ++in_use_[owner];
}

void SharedPool::EndUse(uint64_t owner) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto use = in_use_.find(owner);
  if (--use->second > 0) return;
  in_use_.erase(use);
  gone_.erase(owner);
}

size_t SharedPool::owners_gone() const {
  std::lock_guard<std::mutex> lock(mu_);
  return gone_.size();
}

size_t SharedPool::bytes() const {
  std::lock_guard<std::mutex> lock(mu_);
  return bytes_;
}

}  // namespace pw::net
