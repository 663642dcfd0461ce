// Fetches: copies shards to host memory, and sends them from there to the client or the controller.
//
// Small results travel inside Fetched. Large ones go on the client's lane if the command says so. Otherwise Fetched names them as
// shared memory, if the controller can open it, or they follow as chunks on the bulk lane, as fast as the connection takes them.
//
// Invariants:
//   FT-1  unsent copies in host memory exceed the limit by at most one copy, and those of a user never exceed the quota (host_quota.h).
//         Further fetches wait, as readers of their shards
//   FT-2  a fetch is answered by exactly one Fetched, unless its session has ended. HadCommands keeps the answers that came in one message,
//         and forgets the fetches with others: repeated, they read the shard again
//   FT-3  strides of clients cost at most as many bytes of gaps as of elements (BytesToRead). Large arrays are laid out off the strand
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "pathways/net/shared/unopened_shared_memory.h"
#include "pathways/worker/lanes/client_lanes.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/host_memory.h"

namespace pw::worker {

class Fetches {
 public:
  Fetches(WorkerContext* context, DeviceArrays* arrays, HostMemory* host_memory, ClientLanes* lanes, int64_t limit_bytes,
          HostQuota* quota)
      : context_(context), arrays_(arrays), host_memory_(host_memory), lanes_(lanes), limit_bytes_(limit_bytes), quota_(quota) {}

  void Fetch(const pathways::v1::Fetch& command);
  // Returns the shared memory that Fetched named: the controller has opened it.
  void Taken(const pathways::v1::SharedTaken& command);
  // Goes on sending: the connection takes bulk data again.
  void Pump();
  void ReleaseOwner(SessionId session);
  // Lets fetches that wait check again: quotas may have room.
  void MoreRoom() { Freed(0); }

 private:
  struct Request {
    uint64_t fetch;
    uint64_t lane_fetch = 0;  // the client's number of the fetch, if it may go on a lane; else 0
    uint64_t lane_above = 0;
    ShardRef shard;
    SessionId session;
    std::optional<device::Dims> byte_strides;
    int64_t bytes = 0;  // its part of in_memory_
    buffers::DType dtype = buffers::DType::kInvalid;
    device::Dims dims;
    Hazards::TaskRef task;
    bool answered = false;
    bool view_tried = false;
    HostQuota::Charge charge = nullptr;  // for `bytes`
  };
  using RequestRef = std::shared_ptr<Request>;
  struct Sending {
    uint64_t fetch;
    SessionId session;
    Bytes data;
    HostQuota::Charge charge;
    size_t sent = 0;
  };

  Hazards::Outcome Start(const RequestRef& request, const absl::Status& input);
  bool SharesMemory(const Request& request) const;
  bool StartCopy(const RequestRef& request);
  void CopyView(const RequestRef& request, Bytes view);
  void Copied(const RequestRef& request, absl::StatusOr<Bytes> bytes);
  void Answer(const RequestRef& request, absl::StatusOr<Bytes> bytes);
  void Restride(const RequestRef& request, Bytes dense);
  void Give(const RequestRef& request, absl::StatusOr<Bytes> bytes);
  void Fail(uint64_t fetch, const absl::Status& status);
  void Lend(const RequestRef& request, const Bytes& bytes);
  void SendOnLane(const RequestRef& request, Bytes bytes);
  // Frees a copy: its bytes and its charge.
  void Freed(int64_t bytes, HostQuota::Charge charge = nullptr);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  HostMemory* const host_memory_;
  ClientLanes* const lanes_;
  const int64_t limit_bytes_;
  HostQuota* const quota_;
  int64_t in_memory_ = 0;
  std::deque<Hazards::TaskRef> waiting_;  // for in_memory_ to shrink
  std::deque<Sending> sending_;
  net::UnopenedSharedMemory loans_;
};

}  // namespace pw::worker
