#include "pathways/worker/store/object_store.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"

namespace pw::worker {

// Indices usually arrive as 0, 1, 2, ...
ShardRef* ObjectStore::FindIn(Entry& entry, int shard) {
  const size_t guess = static_cast<size_t>(shard);
  if (shard >= 0 && guess < entry.shards.size() && entry.shards[guess].first == shard) return &entry.shards[guess].second;
  for (auto& [index, value] : entry.shards) {
    if (index == shard) return &value;
  }
  return nullptr;
}

ShardRef ObjectStore::Find(ArrayId array, int shard) const {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) return nullptr;
  if (it->second.poison != nullptr) return it->second.poison;
  ShardRef* found = FindIn(const_cast<Entry&>(it->second), shard);
  return found == nullptr ? nullptr : *found;
}

ShardRef ObjectStore::FindOrFailed(ArrayId array, int shard) const {
  ShardRef found = Find(array, shard);
  if (found != nullptr) return found;
  return Shard::Failed(absl::NotFoundError(absl::StrCat("shard ", shard, " of ", ToString(array),
                                                        " is not on this host: it was deleted, donated, or never put here")));
}

void ObjectStore::ForEachShard(ArrayId array, absl::FunctionRef<void(int, const ShardRef&)> visit) const {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) return;
  for (const auto& [index, value] : it->second.shards) visit(index, value);
}

void ObjectStore::ForEach(absl::FunctionRef<void(const ShardRef&)> visit) const {
  for (const auto& [array, entry] : arrays_) {
    for (const auto& [index, shard] : entry.shards) visit(shard);
  }
}

void ObjectStore::Bind(ArrayId array, int shard, ShardRef value, SessionId session) {
  Entry& entry = arrays_[array];
  entry.session = session;
  ++value->names;
  if (ShardRef* old = FindIn(entry, shard); old != nullptr) {
    --(*old)->names;
    *old = std::move(value);
    return;
  }
  entry.shards.emplace_back(shard, std::move(value));
}

void ObjectStore::Poison(ArrayId array, absl::Status error, SessionId session) {
  Entry& entry = arrays_[array];
  Forget(entry);
  entry.session = session;
  entry.poison = Shard::Failed(std::move(error));
  ++entry.poison->names;
}

void ObjectStore::Forget(Entry& entry) {
  for (auto& [index, value] : entry.shards) --value->names;
  entry.shards.clear();
  entry.poison = nullptr;
}

void ObjectStore::Alias(ArrayId from, ArrayId to, SessionId session) {
  std::vector<std::pair<int, ShardRef>> shards;
  ForEachShard(from, [&](int index, const ShardRef& shard) { shards.emplace_back(index, shard); });
  for (const auto& [index, shard] : shards) Bind(to, index, shard, session);
  if (shards.empty()) Poison(to, FindOrFailed(from, 0)->error(), session);  // it is poisoned or unknown
}

void ObjectStore::Release(ArrayId array) {
  auto it = arrays_.find(array);
  if (it == arrays_.end()) return;
  Forget(it->second);
  arrays_.erase(it);
}

void ObjectStore::ReleaseOwner(SessionId session) {
  for (ArrayId array : SortedKeysWhere(arrays_, [session](const Entry& e) { return e.session == session; })) Release(array);
}

}  // namespace pw::worker
