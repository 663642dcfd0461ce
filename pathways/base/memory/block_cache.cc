#include "pathways/base/memory/block_cache.h"

#include <deque>
#include <mutex>
#include <utility>

#include "pathways/base/memory/try_allocate.h"

namespace pw {

class BlockCache::Idle {
 public:
  struct Block {
    std::shared_ptr<uint8_t> memory;
    size_t size = 0;
  };

  explicit Idle(size_t limit) : limit_(limit) {}

  // Returns a fitting idle block, or a block without memory if none fits.
  Block Take(size_t size) {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      if (it->size < size || it->size - size > size / 4) continue;
      Block block = std::move(*it);
      blocks_.erase(it);
      bytes_ -= block.size;
      return block;
    }
    return {};
  }
  void Return(Block block) {
    std::deque<Block> dropped;  // freed without the lock
    std::lock_guard<std::mutex> lock(mu_);
    bytes_ += block.size;
    blocks_.push_front(std::move(block));  // the warmest
    while (bytes_ > limit_) {
      bytes_ -= blocks_.back().size;
      dropped.push_back(std::move(blocks_.back()));
      blocks_.pop_back();
    }
  }
  size_t bytes() const {
    std::lock_guard<std::mutex> lock(mu_);
    return bytes_;
  }

 private:
  const size_t limit_;
  mutable std::mutex mu_;
  std::deque<Block> blocks_;
  size_t bytes_ = 0;
};

BlockCache::BlockCache(size_t limit_bytes) : idle_(std::make_shared<Idle>(limit_bytes)) {}
BlockCache::~BlockCache() = default;

std::optional<AlignedBytes> BlockCache::Take(size_t size) {
  if (size < kWorthwhileBytes) return TryAllocate(size);
  Idle::Block block = idle_->Take(size);
  if (block.memory == nullptr) {
    const std::optional<AlignedBytes> fresh = TryAllocate(size);
    if (!fresh.has_value()) return std::nullopt;
    block = {fresh->memory(), size};
  }
  uint8_t* const data = block.memory.get();
  std::weak_ptr<Idle> idle = idle_;
  return AlignedBytes(std::shared_ptr<uint8_t>(data,
                                               [block = std::move(block), idle = std::move(idle)](uint8_t*) mutable {
                                                 if (const std::shared_ptr<Idle> cache = idle.lock())
                                                   cache->Return(std::move(block));
                                               }),
                      size);
}

size_t BlockCache::idle_bytes() const { return idle_->bytes(); }

}  // namespace pw
