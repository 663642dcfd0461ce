// HostBuffers: what the threads of a floor server share: which uploads have arrived, and how large the buffers are that clients may
// look up. No contents. Thread-safe; keyed by session and host-buffer handle.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace pw::bench {

class HostBuffers {
 public:
  using Key = std::pair<uint64_t, uint64_t>;

  void SetArrived(Key key) {
    const std::lock_guard lock(mutex_);
    arrived_.insert(key);
    arrival_.notify_all();
  }
  // Blocks until the upload is complete; forgets it.
  void AwaitArrival(Key key) {
    std::unique_lock lock(mutex_);
    arrival_.wait(lock, [&] { return arrived_.erase(key) > 0; });
  }
  void SetSize(Key key, int64_t size) {
    const std::lock_guard lock(mutex_);
    sizes_[key] = size;
  }
  int64_t SizeOf(Key key, int64_t otherwise) {
    const std::lock_guard lock(mutex_);
    const auto it = sizes_.find(key);
    return it == sizes_.end() ? otherwise : it->second;
  }
  void Forget(Key key) {
    const std::lock_guard lock(mutex_);
    sizes_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrival_;
  std::set<Key> arrived_;
  std::map<Key, int64_t> sizes_;
};

}  // namespace pw::bench
