// Moves: this host's part of copies and reshards, within the host and between hosts.
//
// A Move command lists the regions of local shards to send to peers, and the pieces that make up each new local shard. A shard copied whole
// goes device to device through the runtime; any other is assembled in host memory. Sends read their shards before later donations take
// them (hazards.h), and read in place if device memory is host memory. Sockets write arriving data directly into the new shard's memory
// (net/receive_buffers.h).
//
// Invariants:
//   MV-1  a Move is done when its sends have left and its new shards have settled
//   MV-2  a Move copies a shard to host memory at most once
//   MV-3  a failed piece fails only its own shard; if a send's shard has failed, the send tells the receiver
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "pathways/buffers/sharding.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/host_memory.h"
#include "pathways/worker/store/host_quota.h"
#include "pathways/worker/transfer/staging.h"
#include "pathways/worker/transfer/transfer_queue.h"

namespace pw::worker {

using buffers::Dims;

class Moves : public TransferQueue::Receiver {
 public:
  Moves(WorkerContext* context, DeviceArrays* arrays, HostMemory* host_memory, TransferQueue* transfers,
        int64_t staging_limit_bytes, HostQuota* quota)
      : context_(context),
        arrays_(arrays),
        host_memory_(host_memory),
        transfers_(transfers),
        quota_(quota),
        staging_(&host_memory->blocks(), staging_limit_bytes, &quota->accounts()) {
    transfers->SetReceiver(this);
  }

  void Move(const pathways::v1::Move& command);
  void ReleaseOwner(SessionId session);

  void OnChunk(HostId from, const pathways::v1::Chunk& chunk, Bytes payload) override;
  void OnTransferFailed(HostId from, uint64_t transfer, const absl::Status& status) override;
  void OnPeerLost(HostId host, const absl::Status& status) override;
  bool Awaits(HostId host) const override { return staging_.Awaits(host); }

 private:
  struct Operation;
  struct Assembly;
  struct Outgoing;
  using OperationRef = std::shared_ptr<Operation>;
  using OutgoingRef = std::shared_ptr<Outgoing>;
  using AssemblyRef = std::shared_ptr<Assembly>;

  Future<Bytes> HostCopy(const OperationRef& operation, const ShardRef& shard);
  // moves_send.cc
  void Send(const OperationRef& operation, const pathways::v1::Move::Send& send);
  Hazards::Outcome StartSend(const OutgoingRef& out, const absl::Status& input);
  void SendView(const OutgoingRef& out, const Bytes& view);
  void SendCopy(const OutgoingRef& out);
  Future<Bytes> CopyAside(const OutgoingRef& out, const Bytes& view, bool shared);
  void Hand(const OutgoingRef& out, const absl::StatusOr<Bytes>& region, bool in_place = false);
  void FailSend(const OutgoingRef& out, const absl::Status& error);

  absl::Status Check(const pathways::v1::Move::Receive& receive, Assembly* assembly) const;
  void Receive(const OperationRef& operation, const pathways::v1::Move::Receive& receive);
  bool CopyWhole(const OperationRef& operation, const pathways::v1::Move::Receive& receive, const AssemblyRef& assembly);
  void Assemble(const OperationRef& operation, const pathways::v1::Move::Receive& receive, const AssemblyRef& assembly);
  void ExpectPiece(const OperationRef& operation, const AssemblyRef& assembly, size_t index, uint64_t transfer, HostId from);
  uint8_t* FinalPlace(Assembly* assembly, size_t index, bool comes_shared);
  uint8_t* Memory(Assembly* assembly);
  void AddLocal(const OperationRef& operation, const AssemblyRef& assembly, size_t piece, const ShardRef& source);
  void AddPiece(const OperationRef& operation, const AssemblyRef& assembly, size_t piece, const absl::StatusOr<Bytes>& bytes,
                const device::Dims& dims, const device::Dims& start);
  void Finish(const OperationRef& operation, const AssemblyRef& assembly);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  HostMemory* const host_memory_;
  TransferQueue* const transfers_;
  HostQuota* const quota_;
  Staging staging_;
};

}  // namespace pw::worker
