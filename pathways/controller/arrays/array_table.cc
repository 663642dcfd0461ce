#include "pathways/controller/arrays/array_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"

namespace pw::controller {

absl::Status UnknownHandle(const char* what, Handle handle) {
  return absl::NotFoundError(
      absl::StrCat(what, " ", handle, " is unknown to this session: it was never made, or it has been destructed"));
}

absl::Status ArrayTable::CheckNew(absl::Span<const Handle> handles) const {
  absl::flat_hash_set<Handle> seen;
  for (Handle handle : handles) {
    if (handle == 0) return absl::InvalidArgumentError("handle 0 cannot name an array");
    if (handle >= next_server_handle_)
      return absl::InvalidArgumentError(absl::StrCat(
          "handle ", handle, " is one of those that the controller chooses: a client numbers its arrays below them"));
    if (entries_.contains(handle)) return absl::AlreadyExistsError(absl::StrCat("array handle ", handle, " is in use"));
    if (handles.size() > 1 && !seen.insert(handle).second) {
      return absl::InvalidArgumentError(absl::StrCat("array handle ", handle, " is given to two results"));
    }
  }
  if (static_cast<int64_t>(entries_.size() + handles.size()) > max_handles_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this client has ", entries_.size(), " arrays, the limit is ", max_handles_));
  }
  return absl::OkStatus();
}

ArrayEntry* ArrayTable::Find(Handle handle) {
  auto it = entries_.find(handle);
  return it == entries_.end() ? nullptr : &it->second;
}

absl::StatusOr<ArrayEntry*> ArrayTable::Live(Handle handle) {
  ArrayEntry* entry = Find(handle);
  if (entry == nullptr) return UnknownHandle("array", handle);
  if (!entry->is_deleted()) return entry;
  return absl::InvalidArgumentError(
      absl::StrCat("Array has been deleted or donated: ", entry->spec == nullptr ? "an error" : buffers::ToString(*entry->spec)));
}

absl::Status ArrayTable::Delete(absl::Span<const Handle> handles) {
  absl::Status status;
  for (Handle handle : handles) {
    ArrayEntry* entry = Find(handle);
    if (entry == nullptr) {
      status.Update(UnknownHandle("array", handle));
      continue;
    }
    entry->deleted = true;
    entry->strings = nullptr;
    buffers::LogicalArray::Drop(std::exchange(entry->record, nullptr));  // may run waiters: last
  }
  return status;
}

absl::Status ArrayTable::Erase(absl::Span<const Handle> handles) {
  absl::Status status;
  for (Handle handle : handles) {
    auto it = entries_.find(handle);
    if (it == entries_.end()) {
      status.Update(UnknownHandle("array", handle));
      continue;
    }
    ArrayEntry dropped = std::move(it->second);
    entries_.erase(it);
    buffers::LogicalArray::Drop(std::move(dropped.record));
  }
  return status;
}

std::vector<buffers::LogicalArray::Ref> ArrayTable::Records() const {
  std::vector<buffers::LogicalArray::Ref> records;
  absl::flat_hash_set<const buffers::LogicalArray*> seen;
  for (Handle handle :
       SortedKeysWhere(entries_, [](const ArrayEntry& e) { return e.record != nullptr && e.strings == nullptr; })) {
    const buffers::LogicalArray::Ref& record = entries_.at(handle).record;
    if (seen.insert(record.get()).second) records.push_back(record);
  }
  return records;
}

void ArrayTable::OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error) {
  // Poisoning runs waiters, which may change the table.
  for (const auto& record : Records()) record->OnDevicesLost(lost, error);
}

void ArrayTable::Replace(const absl::flat_hash_map<const buffers::LogicalArray*, buffers::LogicalArray::Ref>& replaced) {
  std::vector<buffers::LogicalArray::Ref> dropped;  // dropping the last reference may run waiters
  for (auto& [handle, entry] : entries_) {
    auto it = replaced.find(entry.record.get());
    if (it != replaced.end()) dropped.push_back(std::exchange(entry.record, it->second));
  }
}

int64_t ArrayTable::TotalBytes() const {
  int64_t total = 0;
  absl::flat_hash_set<const buffers::LogicalArray*> seen;
  for (const auto& [handle, entry] : entries_) {
    if (entry.record == nullptr || entry.is_deleted() || entry.is_error() || !seen.insert(entry.record.get()).second) continue;
    total += buffers::DenseBytes(entry.spec->dtype, entry.spec->dims).value_or(0);
  }
  return total;
}

void ArrayTable::Clear() { auto dropped = std::exchange(entries_, {}); }

}  // namespace pw::controller
