#include "pathways/client/array_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"

namespace pw::client {
namespace {

absl::Status Unknown(session::Handle array) {
  return absl::NotFoundError(
      absl::StrCat("array ", array, " is unknown to this session: it was never made, or it has been destructed"));
}

}  // namespace

ArrayTable::SpecPtr ArrayTable::Find(Handle array) const {
  auto entry = entries_.find(array);
  return entry == entries_.end() ? nullptr : entry->second.spec;
}

absl::StatusOr<ArrayTable::SpecPtr> ArrayTable::Spec(Handle array) const {
  auto entry = entries_.find(array);
  if (entry == entries_.end()) return Unknown(array);
  if (entry->second.spec != nullptr) return entry->second.spec;
  return absl::FailedPreconditionError(absl::StrCat("array ", array, " is the result of a request that failed: it has no shape"));
}

absl::StatusOr<bool> ArrayTable::IsDeleted(Handle array) const {
  auto entry = entries_.find(array);
  if (entry == entries_.end()) return Unknown(array);
  return entry->second.deleted;
}

void ArrayTable::SetRequest(absl::Span<const Handle> arrays, uint64_t request) {
  for (Handle array : arrays) {
    if (const auto entry = entries_.find(array); entry != entries_.end()) entry->second.request = request;
  }
}

void ArrayTable::SetName(Handle array, uint64_t name) {
  if (const auto entry = entries_.find(array); entry != entries_.end()) entry->second.name = name;
  for (auto& [handle, entry] : erased_) {
    if (handle == array) entry.name = name;
  }
}

void ArrayTable::OnSettled(uint64_t up_to) {
  while (!erased_.empty() && erased_.front().second.erased_by <= up_to) erased_.pop_front();
}

void ArrayTable::ForEach(absl::FunctionRef<void(Handle, const Entry&)> visit) const {
  for (Handle handle : SortedKeys(entries_)) visit(handle, entries_.at(handle));
}

void ArrayTable::ForEachErased(absl::FunctionRef<void(Handle, const Entry&)> visit) const {
  for (const auto& [handle, entry] : erased_) visit(handle, entry);
}

absl::Status ArrayTable::Delete(absl::Span<const Handle> arrays, uint64_t request) {
  absl::Status status;
  for (Handle array : arrays) {
    auto entry = entries_.find(array);
    if (entry == entries_.end())
      status.Update(Unknown(array));
    else if (!std::exchange(entry->second.deleted, true))
      entry->second.deleted_by = request;
  }
  return status;
}

absl::Status ArrayTable::Erase(absl::Span<const Handle> arrays, uint64_t request) {
  absl::Status status;
  for (Handle array : arrays) {
    auto entry = entries_.extract(array);
    if (entry.empty()) {
      status.Update(Unknown(array));
    } else if (request != 0 && entry.mapped().request != 0) {
      erased_.emplace_back(array, std::move(entry.mapped()));
      erased_.back().second.erased_by = request;
    }
  }
  return status;
}

}  // namespace pw::client
