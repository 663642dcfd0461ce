// SharedArray: an array of the session that the buffers of its devices share.
//
// An operation on all buffers of an array together is one operation of the session. An operation on one of them takes the array apart,
// once. Arrays that were made shard by shard are put together when an execution first takes them, and stay together.
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
  std::shared_ptr<SharedArray> array;  // null: none, as of a deleted buffer
  int shard = 0;
};

class SharedArray {
 public:
  // `ready`: becomes ready with the array; not valid(): the cluster is asked when somebody wants to know.
  SharedArray(client::Client* session, client::Array array, int num_shards, Future<Unit> ready = {})
      : session_(session), num_shards_(num_shards), array_(std::move(array)), ready_(std::move(ready)) {}
  // Puts an array together. `singles`: its shards, each the whole of an array on one device.
  static std::shared_ptr<SharedArray> Of(client::Client* session, const buffers::ArraySpec& spec,
                                         std::vector<std::shared_ptr<SharedArray>> singles);

  const client::Array& array() const { return array_; }
  int num_shards() const { return num_shards_; }
  // Returns the array of this shard alone: the place's array if it has one shard, and otherwise one that shares its data.
  static std::shared_ptr<SharedArray> Single(const Place& place);
  // Becomes ready with the array. The cluster is asked at most once.
  Future<Unit> Ready();
  // The array is about to be donated: gives up what else refers to its data.
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
