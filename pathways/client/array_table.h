// ArrayTable: the specs of a session's arrays, and whether they are deleted. RemoteSession keeps it to answer without the controller.
#pragma once

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/session/session.h"

namespace pw::client {

class ArrayTable {
 public:
  using Handle = session::Handle;
  using SpecPtr = std::shared_ptr<const buffers::ArraySpec>;

  // `spec` may be null: only the controller knows the array's shape, or the array is an error.
  void Insert(Handle array, SpecPtr spec) { entries_[array] = {std::move(spec), false}; }
  // Returns null if the array is not known, or its shape is not.
  SpecPtr Find(Handle array) const;
  // NOT_FOUND for an unknown array; FAILED_PRECONDITION for one whose shape is not known here.
  absl::StatusOr<SpecPtr> Spec(Handle array) const;
  absl::StatusOr<bool> IsDeleted(Handle array) const;
  // Both process all known arrays, then return NOT_FOUND if some were unknown.
  absl::Status Delete(absl::Span<const Handle> arrays);
  absl::Status Erase(absl::Span<const Handle> arrays);
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    SpecPtr spec;
    bool deleted = false;
  };
  absl::flat_hash_map<Handle, Entry> entries_;
};

}  // namespace pw::client
