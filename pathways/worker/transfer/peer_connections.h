// PeerConnections: direct connections to other workers, one in each direction, opened on first use. Data flows from the connecting side
// (peer.proto).
//
// It connects, greets, and accepts. A TransferQueue and a FrameChannel share the connections: they send on them, and get the messages that
// arrive. Frames go ahead of waiting transfers. When a connection breaks, both learn of it. The next transfer or frame connects again.
//
// Invariants:
//   PE-1  a connection without a hello, without a worker's certificate where TLS is on, or from another controller's lifetime, is refused
// Lives on the worker's strand; the connections' threads only post to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/net/transport.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/host_memory.h"
#include "pathways/worker/transfer/frame_channel.h"
#include "pathways/worker/transfer/transfer_queue.h"

namespace pw::worker {

class PeerConnections {
 public:
  // `incarnation`: of the controller.
  PeerConnections(WorkerContext* context, const HostMemory* host_memory, net::Transport* transport, uint64_t incarnation);
  ~PeerConnections();

  TransferQueue& transfers() { return transfers_; }
  FrameChannel& frames() { return frames_; }

  // Sets the other hosts of the cluster. Hosts that are no longer listed have left it.
  void SetPeers(const pathways::v1::Peers& peers);
  // Takes a connection that the listener has accepted.
  void Accept(std::unique_ptr<net::Connection> connection);
  // Traffic of the current connection to a host; for tests.
  net::Counters counters(HostId host) const;

 private:
  struct Outgoing;
  struct Incoming;

  void Connect(HostId to);
  void Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void OutgoingLost(HostId to, const absl::Status& reason);
  void OnFrame(uint64_t id, const pathways::v1::PeerMessage& message, Bytes payload);
  absl::Status Greet(Incoming* in, const pathways::v1::PeerMessage& message);
  absl::Status Handle(Incoming* in, const pathways::v1::PeerMessage& message, Bytes payload);
  void IncomingLost(uint64_t id, const absl::Status& reason);

  WorkerContext* const context_;
  net::Transport* const transport_;
  const uint64_t incarnation_;
  TransferQueue transfers_;  // outlives the connections, which read into its memory
  FrameChannel frames_;
  std::map<HostId, std::unique_ptr<Outgoing>> outgoing_;
  uint64_t next_incoming_ = 1;
  std::map<uint64_t, std::unique_ptr<Incoming>> incoming_;
};

}  // namespace pw::worker
