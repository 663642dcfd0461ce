// TransferQueue: transfers of array data between this worker and others.
//
// Transfers to one host leave in order, in chunks, as fast as the link to it accepts them. A link outlives its connections
// (peer_connections.h), so a break only delays them. When a link is given up, queued transfers fail with UNAVAILABLE naming the host,
// and so do those that the other side awaits. When there is another link, the transfers that the earlier one may have lost are first
// reported to the host as failed.
//
// Invariants:
//   TQ-1  every Send is reported once, with OK or the error. OK means that the last chunk has been handed to the link, which
//         keeps it until it has arrived. If shared memory was named instead, it means that the peer has opened the memory or the link
//         was given up
//   TQ-2  a payload that does not match its checksum fails its transfer with DATA_LOSS, and nothing else
// Lives on the worker's strand. receive_buffers() serves the connections' threads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/receive_buffers.h"
#include "pathways/net/shared/unopened_shared_memory.h"
#include "pathways/net/transport.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/host_memory.h"

namespace pw::worker {

class TransferQueue {
 public:
  // Receives transfers from peers. Set before anything is accepted.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void OnChunk(HostId from, const pathways::v1::Chunk& chunk, Bytes payload) = 0;
    virtual void OnTransferFailed(HostId from, uint64_t transfer, const absl::Status& status) = 0;
    virtual void OnPeerLost(HostId host, const absl::Status& status) = 0;
    // Returns whether a transfer from this host is expected and has not come.
    virtual bool Awaits(HostId host) const = 0;
  };

  // `connect` begins to connect to a host, unless that has begun.
  TransferQueue(const WorkerContext* context, const HostMemory* host_memory, std::function<void(HostId)> connect);

  void SetReceiver(Receiver* receiver) { receiver_ = receiver; }
  // Sends checksums with data from now on. Received checksums are always verified.
  void set_checksum(bool on) { checksum_ = on; }
  bool Knows(HostId host) const { return peers_.count(host) > 0; }
  // Returns whether data for this host should be placed in shared memory.
  bool TakesShared(HostId host) const;
  // Destinations of expected transfers. A transfer that arrives whole in shared memory stays there.
  net::ReceiveBuffers* receive_buffers() { return &receive_buffers_; }

  using Sent = absl::AnyInvocable<void(const absl::Status&) &&>;
  void Send(HostId to, uint64_t transfer, SessionId session, Bytes data, Sent sent);
  void SendFailed(HostId to, uint64_t transfer, const absl::Status& status);

  // ---- for PeerConnections
  // Adds a host, or changes whether it takes shared memory.
  void Add(HostId host, bool takes_shared);
  // Forgets a host that has left, and fails its transfers in both directions.
  void Remove(HostId host, const absl::Status& status);
  // There is a link to the host. It is valid until Broken or Remove.
  void Connected(HostId host, net::FrameSink* link);
  // Sends as much as the link accepts.
  void Pump(HostId to);
  // The host has opened shared memory that was named to it.
  void Returned(HostId to, const pathways::v1::SharedTaken& taken);
  // There is no link to the host: it was given up, or could not be made.
  void Broken(HostId host, const absl::Status& status);
  // The link from the host was given up.
  void IncomingLost(HostId host, const absl::Status& status);
  bool Awaits(HostId host) const { return receiver_ != nullptr && receiver_->Awaits(host); }
  // `link`: the one on which the chunk came.
  absl::Status OnChunk(HostId from, net::FrameSink* link, const pathways::v1::Chunk& chunk, Bytes payload);
  void OnFailed(HostId from, const pathways::v1::TransferFailed& failed);

 private:
  struct Item {
    uint64_t transfer;
    SessionId session;
    Bytes data;
    size_t offset = 0;
    absl::Status failed;  // not OK: a TransferFailed instead of data
    Sent sent;
  };
  struct Peer {
    bool takes_shared = false;
    net::FrameSink* link = nullptr;
    net::UnopenedSharedMemory unopened;
    std::deque<Item> queue;
    std::deque<uint64_t> on_the_way;  // transfers handed to the current link, the latest kRemembered of them
  };

  void Queue(HostId to, Item item);
  void SendPiece(Peer* peer, Item* item);
  void Lend(Peer* peer, Item item);
  static void FailAll(Peer* peer, const absl::Status& status);
  void Deliver(HostId from, const pathways::v1::Chunk& chunk, Bytes bytes);
  absl::Status TakeShared(HostId from, net::FrameSink* link, const pathways::v1::Chunk& chunk);

  net::ReceiveBuffers receive_buffers_;
  const WorkerContext* const context_;
  const HostMemory* const host_memory_;
  const std::function<void(HostId)> connect_;
  Receiver* receiver_ = nullptr;
  bool checksum_ = false;
  std::map<HostId, Peer> peers_;
};

}  // namespace pw::worker
