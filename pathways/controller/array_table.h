// ArrayTable: a session's array handles. Strand-confined.
//
// Several handles may share one array record (a copy that needed no copying). A handle stays known until it is destructed, also
// when its array is an error, was deleted, or was consumed by a computation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/session.h"
#include "pathways/controller/string_arrays.h"

namespace pw::controller {

struct ArrayEntry {
  buffers::LogicalArray::Ref record;               // null once deleted through this handle
  std::shared_ptr<const buffers::ArraySpec> spec;  // null: an error of unknown shape
  std::shared_ptr<const StringCells> strings;      // of string arrays
  bool deleted = false;
  // An array without data that is ready when the computation has called back all that it does: then the client is told of this one. Null:
  // nothing to wait for.
  buffers::LogicalArray::Ref effects = nullptr;

  bool is_deleted() const { return deleted || record->deleted(); }
  bool is_error() const { return record->state() == buffers::LogicalArray::State::kError; }
};

class ArrayTable {
 public:
  explicit ArrayTable(int64_t max_handles) : max_handles_(max_handles) {}

  // A fresh handle above kFirstServerHandle.
  Handle NewHandle() { return next_server_handle_++; }

  // OK if all may be given to new arrays: not 0, not in use, listed once, ours only if we gave them out; RESOURCE_EXHAUSTED over
  // the limit.
  absl::Status CheckNew(absl::Span<const Handle> handles) const;
  // REQUIRES: CheckNew.
  void Insert(Handle handle, ArrayEntry entry) { entries_[handle] = std::move(entry); }

  // Null if unknown.
  ArrayEntry* Find(Handle handle);
  // NOT_FOUND if unknown, INVALID_ARGUMENT if deleted or donated. The pointer is good until the next Insert or Erase.
  absl::StatusOr<ArrayEntry*> Live(Handle handle);

  // Both: NOT_FOUND if some were unknown, after all known ones.
  absl::Status Delete(absl::Span<const Handle> handles);
  absl::Status Erase(absl::Span<const Handle> handles);

  // Every record with a shard on these devices becomes an error.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);
  // Each record once, that is not deleted; those of string arrays are not on devices and left out.
  std::vector<buffers::LogicalArray::Ref> Records() const;

  // Every handle of a record that is a key gets the value.
  void Replace(const absl::flat_hash_map<const buffers::LogicalArray*, buffers::LogicalArray::Ref>& replaced);

  size_t size() const { return entries_.size(); }
  int64_t TotalBytes() const;  // of all whole arrays that are alive, each record once
  void Clear();

 private:
  const int64_t max_handles_;
  Handle next_server_handle_ = kFirstServerHandle;
  absl::flat_hash_map<Handle, ArrayEntry> entries_;
};

absl::Status UnknownHandle(const char* what, Handle handle);

}  // namespace pw::controller
