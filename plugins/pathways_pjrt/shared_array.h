// SharedArray: an array of the session that the buffers on its devices share.
//
// An operation on all buffers of an array is one operation of the session. An operation on one of them takes the array apart,
// once. An execution puts an array that was made shard by shard together when it first takes it. The array stays together.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "pathways/client/client.h"

namespace pw::pathways_pjrt {

class SharedArray;

// A shard of an array.
struct Place {
  std::shared_ptr<SharedArray> array;  // null for a deleted buffer
  int shard = 0;
};

class SharedArray {
 public:
  // `ready` becomes ready with the array. If it is not valid(), the first call of Ready asks the cluster.
  SharedArray(client::Client* session, client::Array array, int num_shards, Future<Unit> ready = {})
      : session_(session), num_shards_(num_shards), array_(std::move(array)), ready_(std::move(ready)) {}
  // Puts an array together. `singles`: its shards, each an array on one device.
  static std::shared_ptr<SharedArray> Of(client::Client* session, const buffers::ArraySpec& spec,
                                         std::vector<std::shared_ptr<SharedArray>> singles);

  const client::Array& array() const { return array_; }
  int num_shards() const { return num_shards_; }
  // Returns the array of this shard alone: the place's array if it has one shard, and otherwise one that shares its data.
  static std::shared_ptr<SharedArray> Single(const Place& place);
  // Returns a future that becomes ready with the array. Asks the cluster at most once.
  Future<Unit> Ready();
  // Drops the arrays that share this one's data, because it is about to be donated.
  void ForgetSingles();

 private:
  client::Client* const session_;
  const int num_shards_;
  const client::Array array_;
  std::mutex mu_;
  std::vector<std::shared_ptr<SharedArray>> singles_;  // guarded by mu_; empty: not taken apart
  Future<Unit> ready_;                                 // guarded by mu_
};

}  // namespace pw::pathways_pjrt
