// ArrayTable: maps a session's array handles to array records. SessionContext owns it. Strand-confined.
//
// Several handles may share one array record (a copy that moved no data, for example). A handle stays known until it is destructed, even if
// its array is an error, was deleted or was donated.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/buffers/logical_array.h"
#include "pathways/controller/arrays/string_arrays.h"
#include "pathways/controller/session.h"

namespace pw::controller {

struct ArrayEntry {
  buffers::LogicalArray::Ref record;               // null once deleted through this handle
  std::shared_ptr<const buffers::ArraySpec> spec;  // null: an error of unknown shape
  std::shared_ptr<const StringCells> strings;      // the cells of a string array; else null
  bool deleted = false;
  // Settles when all host callbacks of the computation that makes the array have ended; readiness and fetches wait for it too. Null:
  // nothing to wait for.
  buffers::LogicalArray::Ref effects = nullptr;

  bool is_deleted() const { return deleted || record->deleted(); }
  bool is_error() const { return record->state() == buffers::LogicalArray::State::kError; }
};

// A shard of an array that becomes a shard of another array too.
struct ShardPick {
  const ArrayEntry* source;
  int shard;
};

class ArrayTable {
 public:
  explicit ArrayTable(int64_t max_handles) : max_handles_(max_handles) {}

  // Returns a new handle, not below kFirstServerHandle.
  Handle NewHandle() { return next_server_handle_++; }

  // Returns OK if all handles can name new arrays: not 0, not in use, listed once, and not in the server's range unless NewHandle returned
  // them. RESOURCE_EXHAUSTED if the session would exceed its limit of handles.
  absl::Status CheckNew(absl::Span<const Handle> handles) const;
  // REQUIRES: CheckNew.
  void Insert(Handle handle, ArrayEntry entry) { entries_[handle] = std::move(entry); }

  // Returns null if the handle is unknown.
  ArrayEntry* Find(Handle handle);
  // NOT_FOUND if the handle is unknown, INVALID_ARGUMENT if the array was deleted or donated. The pointer is valid until the next Insert or
  // Erase.
  absl::StatusOr<ArrayEntry*> Live(Handle handle);

  // Delete drops the arrays of the handles, which stay known; Erase forgets the handles. Both process all known handles, then
  // return NOT_FOUND if some were unknown.
  absl::Status Delete(absl::Span<const Handle> handles);
  absl::Status Erase(absl::Span<const Handle> handles);

  // Turns every record with a shard on one of these devices into an error.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);
  // Returns the records of all handles that were not deleted, each record once. Leaves out string arrays: they are not on devices.
  std::vector<buffers::LogicalArray::Ref> Records() const;

  // Replaces records: a handle whose record is a key of the map gets the mapped record.
  void Replace(const absl::flat_hash_map<const buffers::LogicalArray*, buffers::LogicalArray::Ref>& replaced);

  size_t size() const { return entries_.size(); }
  int64_t TotalBytes() const;  // size of all live arrays as a whole, each record counted once
  void Clear();

 private:
  const int64_t max_handles_;
  Handle next_server_handle_ = kFirstServerHandle;
  absl::flat_hash_map<Handle, ArrayEntry> entries_;
};

absl::Status UnknownHandle(const char* what, Handle handle);

}  // namespace pw::controller
