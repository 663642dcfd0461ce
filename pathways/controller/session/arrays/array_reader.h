// ArrayReader: answers a client's reads of its arrays: whether they are ready, their contents, their descriptions. Contents go to a host
// buffer (HostBufferStore), into the answer, or on a lane (SessionLanes). A read waits until its array has settled (PendingReads), and
// for the host callbacks of the computation that made it. Strand-confined.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "pathways/controller/session/arrays/host_buffer_store.h"
#include "pathways/controller/session/context/pending_reads.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"

namespace pw::controller {

class ArrayReader {
 public:
  // All must outlive this. `lanes` calls FetchByLane.
  ArrayReader(SessionContext* context, PendingReads* reads, HostBufferStore* host_buffers, SessionLanes* lanes)
      : context_(context), fabric_(context->fabric()), reads_(reads), host_buffers_(host_buffers), lanes_(lanes) {}

  // These are the methods of Session, and of LaneRoutes.
  void WhenReady(SessionContext::Arrays arrays, StatusCallback done);
  void CopyToHostBuffer(Handle array, Handle host_buffer, const std::optional<buffers::Dims>& byte_strides, StatusCallback done);
  void FetchByLane(Handle array, const session::LaneFetch& fetch, ResultCallback<session::FetchedArray> done);
  absl::StatusOr<bool> IsDeleted(Handle array);
  absl::StatusOr<buffers::ArraySpec> Spec(Handle array);

 private:
  using Record = SessionContext::Record;

  // Returns the entry of an array that can be fetched. `bytes`: gets the size of its contents.
  absl::StatusOr<const ArrayEntry*> CheckFetch(Handle array, const std::optional<buffers::Dims>& byte_strides, int64_t* bytes);
  void FetchStrings(Handle host_buffer, const ArrayEntry& entry);

  SessionContext* const context_;
  Fabric* const fabric_;
  PendingReads* const reads_;
  HostBufferStore* const host_buffers_;
  SessionLanes* const lanes_;
};

}  // namespace pw::controller
