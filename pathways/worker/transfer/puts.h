// Puts: carries out Put commands: makes shards of an array from bytes of a client's host memory.
//
// The bytes come with the command, as chunks from the controller, or on the client's lane (client_lanes.h). A Put names placements: shards of
// the array with their local devices. Once all bytes are there, each placement becomes a device buffer, without a copy where the device shares
// the host's memory; all placements share the same bytes. The shards exist at once, as pending, so later commands may name them.
//
// A Put is answered by one Done when all its buffers exist or have failed. An error becomes the error of its shards.
// Lives on the worker's strand.
#pragma once

#include <memory>

#include "pathways/worker/lanes/client_lanes.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/transfer/staging.h"

namespace pw::worker {

class Puts {
 public:
  Puts(WorkerContext* context, DeviceArrays* arrays, BlockCache* blocks, ClientLanes* lanes, int64_t staging_limit_bytes,
       HostQuota* quota)
      : context_(context), arrays_(arrays), lanes_(lanes), quota_(quota), staging_(blocks, staging_limit_bytes, &quota->accounts()) {}

  // Begins a Put. `payload`: its bytes, if they come with the command.
  void Put(const pathways::v1::Put& command, const Bytes& payload);
  // Adds bytes to a Put whose bytes come as chunks. The Put and its chunks may arrive in either order. A chunk may name shared memory
  // instead of carrying a payload.
  void AddChunk(const pathways::v1::Chunk& chunk, Bytes payload);
  // Returns whether chunks of this transfer, or its Put, have come, but not all of both.
  bool IsUnderWay(uint64_t transfer) const { return staging_.Has(transfer); }
  // Fails a Put whose remaining chunks will not come.
  void Abort(const pathways::v1::AbortTransfer& command);
  // Fails the session's Puts that wait for chunks. ClientLanes fails those that wait for a lane.
  void ReleaseOwner(SessionId session);

 private:
  struct Request;
  using RequestRef = std::shared_ptr<Request>;

  absl::Status Check(const pathways::v1::Put& command, Request* request) const;
  void Arrived(const RequestRef& request, absl::StatusOr<Bytes> bytes);
  void Settled(const RequestRef& request, const absl::Status& status);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  ClientLanes* const lanes_;
  HostQuota* const quota_;
  Staging staging_;
};

}  // namespace pw::worker
