// ArrayTable: the shapes of a session's arrays, and whether they are deleted. RemoteSession (remote_session.h) has one, so that it answers
// questions of the program about its arrays without asking the controller. Lives on the strand of its session.
//
// A deleted array (x.delete() in jax, or donated by a copy) stays in the table, and its shape can still be asked for. An erased one is
// forgotten: the program has dropped its last reference.
//
// Controllers that return. The table also knows which request has made an array, and by which name hosts know it, so that another controller can
// restore it (session.proto). Erased arrays are remembered until all requests before that are settled: those may use it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/session/session.h"

namespace pw::client {

class ArrayTable {
 public:
  using Handle = session::Handle;
  using SpecPtr = std::shared_ptr<const buffers::ArraySpec>;

  struct Entry {
    SpecPtr spec;
    bool deleted = false;
    uint64_t request = 0;                            // that has made it; 0: none, it is an error
    uint64_t name = 0;                               // by which hosts know it; 0: not known yet, or none
    uint64_t deleted_by = 0, erased_by = 0;          // requests; 0: none
    std::shared_ptr<const absl::Status> error = {};  // of an array that was made as an error
  };

  // Adds an array. `spec` is null where only the controller knows the array's shape.
  void Insert(Handle array, SpecPtr spec) { entries_[array] = {std::move(spec)}; }
  // Adds the array that this request makes.
  void Insert(Handle array, SpecPtr spec, uint64_t request, uint64_t name = 0) {
    entries_[array] = {std::move(spec), false, request, name};
  }
  void InsertError(Handle array, SpecPtr spec, uint64_t request, absl::Status error) {
    entries_[array] = {std::move(spec), false, request, 0, 0, 0, std::make_shared<const absl::Status>(std::move(error))};
  }
  // Notes the request that makes these arrays, and the name of one.
  void SetRequest(absl::Span<const Handle> arrays, uint64_t request);
  void SetName(Handle array, uint64_t name);
  // Returns the shape, or null if the table does not know it.
  SpecPtr Find(Handle array) const;
  // The same with an error: NOT_FOUND for an unknown array, FAILED_PRECONDITION for one whose shape only the controller knows.
  absl::StatusOr<SpecPtr> Spec(Handle array) const;

  // NOT_FOUND for an unknown array.
  absl::StatusOr<bool> IsDeleted(Handle array) const;

  // Marks arrays as deleted by this request. Unknown arrays do not keep the others from it; they make the result NOT_FOUND.
  absl::Status Delete(absl::Span<const Handle> arrays, uint64_t request);
  // Forgets arrays, which this request erases. Unknown ones: as for Delete.
  absl::Status Erase(absl::Span<const Handle> arrays, uint64_t request);
  size_t size() const { return entries_.size(); }

  // All requests up to this one are settled.
  void OnSettled(uint64_t up_to);
  void ForEach(absl::FunctionRef<void(Handle, const Entry&)> visit) const;
  // Visits the erased arrays that requests may use which are not settled.
  void ForEachErased(absl::FunctionRef<void(Handle, const Entry&)> visit) const;
  size_t erased() const { return erased_.size(); }

 private:
  absl::flat_hash_map<Handle, Entry> entries_;
  std::deque<std::pair<Handle, Entry>> erased_;  // in the order of the requests
};

}  // namespace pw::client
