#include "pathways/client/array_table.h"

#include "absl/strings/str_cat.h"

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

absl::Status ArrayTable::Delete(absl::Span<const Handle> arrays) {
  absl::Status status;
  for (Handle array : arrays) {
    auto entry = entries_.find(array);
    if (entry == entries_.end())
      status.Update(Unknown(array));
    else
      entry->second.deleted = true;
  }
  return status;
}

absl::Status ArrayTable::Erase(absl::Span<const Handle> arrays) {
  absl::Status status;
  for (Handle array : arrays) {
    if (entries_.erase(array) == 0) status.Update(Unknown(array));
  }
  return status;
}

}  // namespace pw::client
