// HostBuffers: the uploads that have arrived, and the sizes of the buffers that clients may download, without contents. Keyed by
// session and host-buffer handle. Thread-safe: all threads of a floor server share it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace pw::bench {

class HostBuffers {
 public:
  using Key = std::pair<uint64_t, uint64_t>;

  void SetArrived(Key key) {
    std::function<void()> waiting;
    {
      const std::lock_guard lock(mutex_);
      const auto it = waiting_.find(key);
      if (it == waiting_.end()) {
        arrived_.insert(key);
        return;
      }
      waiting = std::move(it->second);
      waiting_.erase(it);
    }
    waiting();
  }
  // Calls `then` once, when the upload is complete: now, or on the thread that completes it. Forgets the upload.
  void WhenArrived(Key key, std::function<void()> then) {
    {
      const std::lock_guard lock(mutex_);
      if (arrived_.erase(key) == 0) {
        waiting_[key] = std::move(then);
        return;
      }
    }
    then();
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
  std::set<Key> arrived_;
  std::map<Key, std::function<void()>> waiting_;
  std::map<Key, int64_t> sizes_;
};

}  // namespace pw::bench
