// The object store: which shard each (array, shard index) of this host means.
//
// Invariants:
//   OS-1  Shard::names counts the names that mean it
//   OS-2  an array belongs to one session, and goes with it
//   OS-3  a poisoned array gives the same failed shard for every index
// Lives on the worker's strand.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/worker/shard.h"

namespace pw::worker {

class ObjectStore {
 public:
  // Null if the name means nothing here.
  ShardRef Find(ArrayId array, int shard) const;
  // As Find, but a name that means nothing gives a shard that has failed with NOT_FOUND.
  ShardRef FindOrFailed(ArrayId array, int shard) const;
  // The shards of an array on this host, with their indices.
  void ForEachShard(ArrayId array, absl::FunctionRef<void(int, const ShardRef&)> visit) const;

  // Every shard that has a name, once for each.
  void ForEach(absl::FunctionRef<void(const ShardRef&)> visit) const;

  // Replaces what the name meant.
  void Bind(ArrayId array, int shard, ShardRef value, SessionId session);
  // All shards of the array, known and unknown, fail with `error`.
  void Poison(ArrayId array, absl::Status error, SessionId session);
  void Release(ArrayId array);
  void ReleaseOwner(SessionId session);

  int64_t arrays() const { return static_cast<int64_t>(arrays_.size()); }

 private:
  struct Entry {
    SessionId session;
    ShardRef poison;  // null unless poisoned
    absl::InlinedVector<std::pair<int, ShardRef>, 2> shards;
  };
  static ShardRef* FindIn(Entry& entry, int shard);
  static void Forget(Entry& entry);

  absl::flat_hash_map<ArrayId, Entry> arrays_;
};

}  // namespace pw::worker
