// ArrayTable: the shapes of a session's arrays, and whether they are deleted. RemoteSession (remote_session.h) has one, so that it answers
// questions of the program about its arrays without asking the controller. Lives on the strand of its session.
//
// A deleted array (x.delete() in jax, or donated by a copy) stays in the table, and its shape can still be asked for. An erased one is
// forgotten: the program has dropped its last reference.
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

  // Adds an array. `spec` is null where only the controller knows the array's shape.
  void Insert(Handle array, SpecPtr spec) { entries_[array] = {std::move(spec), false}; }
  // Returns the shape, or null if the table does not know it.
  SpecPtr Find(Handle array) const;
  // The same with an error: NOT_FOUND for an unknown array, FAILED_PRECONDITION for one whose shape only the controller knows.
  absl::StatusOr<SpecPtr> Spec(Handle array) const;

  // NOT_FOUND for an unknown array.
  absl::StatusOr<bool> IsDeleted(Handle array) const;

  // Marks arrays as deleted. Unknown arrays do not keep the others from it; they make the result NOT_FOUND.
  absl::Status Delete(absl::Span<const Handle> arrays);
  // Forgets arrays. Unknown ones: as for Delete.
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
