// Puts: shards from host memory.
//
// The bytes come with the command, as chunks, or on the lane of the client. Each placement becomes a buffer once they are there, without a copy where the
// device shares the host's memory; several placements share the same bytes.
//
// Lives on the worker's strand.
#pragma once

#include <memory>

#include "pathways/worker/client_lanes.h"
#include "pathways/worker/core.h"
#include "pathways/worker/staging.h"

namespace pw::worker {

class Puts {
 public:
  Puts(Core* core, ClientLanes* lanes, int64_t staging_limit_bytes)
      : core_(core), lanes_(lanes), staging_(&core->blocks, staging_limit_bytes) {}

  void Put(const pathways::v1::Put& command, const Bytes& payload);
  void AddChunk(const pathways::v1::Chunk& chunk, Bytes payload);
  void Abort(const pathways::v1::AbortTransfer& command);
  void ReleaseOwner(SessionId session);

 private:
  struct Request;
  using RequestRef = std::shared_ptr<Request>;

  absl::Status Check(const pathways::v1::Put& command, Request* request) const;
  void Arrived(const RequestRef& request, absl::StatusOr<Bytes> bytes);
  void Settled(const RequestRef& request, const absl::Status& status);

  Core* const core_;
  ClientLanes* const lanes_;
  Staging staging_;
};

}  // namespace pw::worker
