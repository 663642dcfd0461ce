// ObjectStore: maps each name (array, shard index) on this host to its shard.
//
// Invariants:
//   OS-1  Shard::names is the number of names that refer to the shard
//   OS-2  an array belongs to one session and is released with it
//   OS-3  a poisoned array yields the same failed shard for every index
// Lives on the worker's strand.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/worker/store/shard.h"

namespace pw::worker {

class ObjectStore {
 public:
  // Returns null if the name is unknown.
  ShardRef Find(ArrayId array, int shard) const;
  // Like Find, but an unknown name yields a shard that has failed with NOT_FOUND.
  ShardRef FindOrFailed(ArrayId array, int shard) const;
  // The shards of an array on this host, with their indices.
  void ForEachShard(ArrayId array, absl::FunctionRef<void(int, const ShardRef&)> visit) const;

  // Visits every named shard, once for each of its names.
  void ForEach(absl::FunctionRef<void(const ShardRef&)> visit) const;

  using Shards = absl::InlinedVector<std::pair<int, ShardRef>, 2>;
  // Visits every array, with its session and its shards, or the shard that all its names yield because it is poisoned.
  void ForEachArray(absl::FunctionRef<void(ArrayId, SessionId, const ShardRef& poison, const Shards&)> visit) const {
    for (const auto& [array, entry] : arrays_) visit(array, entry.session, entry.poison, entry.shards);
  }

  // Replaces any previous binding of the name.
  void Bind(ArrayId array, int shard, ShardRef value, SessionId session);
  // Makes all shards of the array, known and unknown, fail with `error`.
  void Poison(ArrayId array, absl::Status error, SessionId session);
  // Gives all shards of `from` the name `to` too. If it has none, `to` is poisoned with its error.
  void Alias(ArrayId from, ArrayId to, SessionId session);
  void Release(ArrayId array);
  void ReleaseOwner(SessionId session);

  int64_t arrays() const { return static_cast<int64_t>(arrays_.size()); }

 private:
  struct Entry {
    SessionId session;
    ShardRef poison;  // null unless poisoned
    Shards shards;
  };
  static ShardRef* FindIn(Entry& entry, int shard);
  static void Forget(Entry& entry);

  absl::flat_hash_map<ArrayId, Entry> arrays_;
};

}  // namespace pw::worker
