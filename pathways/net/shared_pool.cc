#include "pathways/net/shared_pool.h"

#include <sys/file.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "pathways/base/machine_memory.h"

namespace pw::net {
namespace {

bool IsNobodys(const SharedPages& pages) {
  return ::flock(pages.fd.get(), LOCK_EX | LOCK_NB) == 0 && ::flock(pages.fd.get(), LOCK_UN) == 0;
}

}  // namespace

size_t KeptOfThisMachine() { return std::max(static_cast<size_t>(HalfOfMemory()) / 8, size_t{512} << 20); }

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

void SharedPool::Keep(SharedPages pages, uint64_t owner) {
  std::vector<SharedPages> dropped;  // unmapped without the lock
  std::lock_guard<std::mutex> lock(mu_);
  if (gone_.contains(owner)) return dropped.push_back(std::move(pages));
  bytes_ += pages.size;
  kept_.push_back({std::move(pages), owner});
  while (bytes_ > limit_bytes_ || kept_.size() > kMostFiles) {
    bytes_ -= kept_.front().pages.size;
    dropped.push_back(std::move(kept_.front().pages));
    kept_.pop_front();
  }
}

void SharedPool::Forget(uint64_t owner) {
  std::vector<SharedPages> dropped;
  std::lock_guard<std::mutex> lock(mu_);
  gone_.insert(owner);
  for (Kept& kept : kept_) {
    if (kept.owner != owner) continue;
    bytes_ -= kept.pages.size;
    dropped.push_back(std::move(kept.pages));
  }
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.owner == owner; }), kept_.end());
}

size_t SharedPool::bytes() const {
  std::lock_guard<std::mutex> lock(mu_);
  return bytes_;
}

}  // namespace pw::net
