// PeerConnections: the links to and from other workers, one in each direction, made on first use. Data flows from the connecting side
// (peer.proto).
//
// It connects, greets, and accepts. A TransferQueue and a FrameChannel share the links: they send on them, and get the messages that
// arrive. Frames go ahead of waiting transfers.
//
// Links outlive their connections. If a connection breaks, the connecting side makes another one, and each end resends the frames that
// the other has not received (net/resumable/resumable_link.h). The queue and the channel notice only that nothing can be sent
// meanwhile. A link that has no connection for the grace time is given up: both learn of it, and the next transfer or frame begins
// another link. So is a link whose peer breaks the protocol, at once. A host that has left the cluster is not waited for (SetPeers).
// A link is not resumable, and ends with its connection, if no network can break that, if the cluster has no grace time, or if
// the other host is in this process.
//
// Memory. The link keeps each frame until the peer acknowledges it. Nothing is copied for that: a chunk shares the memory of its
// source. An array that is sent in place counts as being read as long as any chunk of it is kept (host_views.h). So a computation to which
// the array is donated waits, but no longer than until the last chunk is acknowledged, which the peer does at once.
// Chunks are queued while less than ResumableLink::kMostBulkBytes are kept. Frames of the dataflow have their own windows, and
// reports are small; a link without a connection for which more than kMostKeptBytes wait is given up.
//
// The receiver's record of a transfer is the number of its bytes that have arrived (Staging). A chunk of which a part arrived before
// the break comes again as a whole, through memory of its own. Later chunks are written in place again.
//
// Silence. A link is watched while this host waits for the peer: it keeps frames, or awaits a transfer from there. After a quarter of
// the heartbeat limit in silence it sends a ping. If no frame comes for another half, it makes another connection. Other links cost
// nothing. If a link was silent, its grace time began with the ping.
//
// Invariants:
//   PE-1  a connection without a hello, without a worker's certificate where TLS is on, from another controller's lifetime, or for
//         another host, is refused
//   PE-2  a frame takes effect once, in the order of Send, until its link is given up; none takes effect after that
//   PE-3  a new connection of a link is served when the earlier one has closed: no earlier one writes to the memory of a transfer
//   PE-4  a link that is given up is never resumed, and a peer that tries is told so
// Lives on the worker's strand; the connections' threads only post to it (peer_wire.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/net/resumable/attempts.h"
#include "pathways/net/resumable/resumable_link.h"
#include "pathways/net/transport.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/host_memory.h"
#include "pathways/worker/transfer/frame_channel.h"
#include "pathways/worker/transfer/peer_wire.h"
#include "pathways/worker/transfer/transfer_queue.h"

namespace pw::worker {

class PeerConnections final : private PeerWire::Owner {
 public:
  static constexpr size_t kMostKeptBytes = size_t{256} << 20;  // of frames that wait for a connection

  struct Options {
    uint64_t incarnation = 0;        // of the controller
    absl::Duration heartbeat_limit;  // zero: silence is not noticed
    absl::Duration grace;            // zero: a link ends with its connection
  };

  // `timers` may be null: then a link ends with its connection.
  PeerConnections(WorkerContext* context, const HostMemory* host_memory, net::Transport* transport, Timers* timers,
                  const Options& options);
  ~PeerConnections() override;

  TransferQueue& transfers() { return transfers_; }
  FrameChannel& frames() { return frames_; }

  // Sets the other hosts of the cluster. Hosts that are no longer listed have left it.
  void SetPeers(const pathways::v1::Peers& peers);
  // Takes a connection that the listener has accepted.
  void Accept(std::unique_ptr<net::Connection> connection);
  // Traffic of the current connection to a host, and frames to it that are not acknowledged; for tests.
  net::Counters counters(HostId host) const;
  size_t kept_frames(HostId host) const;

 private:
  using Counts = net::ResumableLink::Counts;

  // This host's end of a link.
  struct Link {
    uint64_t number = 0;                         // of the latest link
    std::unique_ptr<net::ResumableLink> stream;  // null: there is no link
    WireId wire = 0;                             // the connection; 0: none
    absl::Time pinged = absl::InfinitePast();    // the ping, or the hello, that is not answered yet
    bool silent = false;                         // its connection is being closed for its silence
  };
  struct Outgoing : Link {
    std::string address;
    bool connecting = false;
    bool asking = false;  // the hello of a broken link has not been answered
    absl::Time broken_since;
    net::Attempts attempts;
  };
  struct Incoming : Link {
    WireId next = 0;  // replaces `wire` when that has closed
    Counts next_received;
    uint64_t breaks = 0;  // counts them
  };
  struct Wire {
    std::unique_ptr<PeerWire> end;
    std::optional<HostId> host;  // none: it has not said hello
    bool outgoing = false;
  };

  void OnPeerMessage(WireId id, const pathways::v1::PeerMessage& message, Bytes payload, size_t bytes) override;
  void OnPeerWritable(WireId id) override;
  void OnPeerClosed(WireId id, const absl::Status& reason) override;

  PeerWire* AddWire(std::unique_ptr<net::Connection> connection, std::optional<HostId> host, bool outgoing);
  PeerWire* WireOf(const Link& link) { return link.wire == 0 ? nullptr : wires_.at(link.wire).end.get(); }
  // Takes in the acknowledgement of a message, and counts it.
  static absl::Status Count(Link* link, const pathways::v1::PeerMessage& message, size_t bytes);
  absl::Time BrokenSince(Link* link);

  // -- links to other hosts
  void Connect(HostId to);
  void Attempt(HostId to);
  void Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  pathways::v1::PeerMessage Hello(HostId to, uint64_t link) const;
  void Begin(HostId to, Outgoing* out);
  void Unreachable(HostId to, const absl::Status& reason);
  absl::Status FromPeer(HostId from, Outgoing* out, const pathways::v1::PeerMessage& message, size_t bytes);
  absl::Status Broken(HostId to, const Outgoing& out, const absl::Status& reason) const;
  absl::Status Resumed(HostId to, Outgoing* out, const pathways::v1::PeerResumed& resumed);
  void OutgoingClosed(HostId to, Outgoing* out, const absl::Status& reason);
  void GiveUp(HostId to, const absl::Status& error);

  // -- links from other hosts
  absl::Status Greet(WireId id, const pathways::v1::PeerMessage& message);
  absl::Status Resume(WireId id, HostId from, const pathways::v1::PeerHello& hello);
  void Serve(HostId from, uint64_t number, WireId id, bool resumable);
  void OpenNext(HostId from);
  void AnswerGivenUp(WireId id, uint64_t number);
  absl::Status Handle(HostId from, Incoming* in, const pathways::v1::PeerMessage& message, Bytes payload, size_t bytes);
  void IncomingClosed(HostId from, WireId id, const absl::Status& reason);
  void GiveUpIncoming(HostId from, const absl::Status& reason);
  void DropIncoming(HostId from);

  void ScheduleTick();
  void Tick(bool late);
  void Watch(HostId host, Link* link, bool awaits, bool asking, bool late);

  WorkerContext* const context_;
  net::Transport* const transport_;
  Timers* const timers_;
  const bool peers_in_process_;
  const Options options_;
  TransferQueue transfers_;  // outlives the connections, which read into its memory
  FrameChannel frames_;
  std::map<HostId, Outgoing> outgoing_;  // of the hosts in the cluster
  std::map<HostId, Incoming> incoming_;
  WireId next_wire_ = 1;
  std::map<WireId, Wire> wires_;  // destroyed before the links
};

}  // namespace pw::worker
