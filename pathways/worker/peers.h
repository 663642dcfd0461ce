// Peers: direct connections to other workers, one each way, made when there is first something to send.
//
// Data flows from the side that connected (peer.proto). Transfers of one peer leave in order, in chunks, as fast as the
// connection takes them. When a connection breaks, what was queued fails with UNAVAILABLE naming the host, and so does what the
// other side was waiting for; the next transfer connects again, and first reports as failed what may have been lost in the broken
// connection.
//
// The same connections carry frames of the coordination dataflow (DataflowLinks) and reports for the controller (ReportPath): before
// transfers that wait, and with no memory of what a broken connection has lost; both sides are told that it broke.
//
// Invariants:
//   PE-1  a stranger (another controller's life, or no hello) is refused
//   PE-2  every Send is reported once: OK when the last chunk has been handed to the connection, or the peer has opened the
//         memory that was named instead; or why not
//   PE-3  bytes that do not match the checksum that came with them fail their transfer with DATA_LOSS, and nothing else
//   PE-4  frames, and reports, to one host arrive in order, each at most once; those that do not arrive were on a connection of which
//         OnPathBroken has told here, or will, before anything of a later one
// Lives on the worker's strand; connections' threads only post to it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/net/landings.h"
#include "pathways/net/transport.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/worker/core.h"

namespace pw::worker {

class Peers {
 public:
  // What arrives from peers. Set before anything is accepted.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void OnChunk(HostId from, const pathways::v1::Chunk& chunk, Bytes payload) = 0;
    virtual void OnTransferFailed(HostId from, uint64_t transfer, const absl::Status& status) = 0;
    virtual void OnPeerLost(HostId host, const absl::Status& status) = 0;
  };

  // For frames of the dataflow. Called on the strand, never from inside SendFrame.
  class FrameReceiver {
   public:
    virtual ~FrameReceiver() = default;
    virtual void OnPeerFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload) = 0;
    // In either direction.
    virtual void OnPathBroken(HostId host, const absl::Status& status) = 0;
    virtual void OnLeft(HostId host, const absl::Status& status) = 0;  // the cluster
  };

  // For reports. Called on the strand, never from inside SendReport.
  class ReportReceiver {
   public:
    virtual ~ReportReceiver() = default;
    virtual void OnReport(HostId from, pathways::v1::Report report) = 0;
    // What was sent there, and has not arrived, is lost.
    virtual void OnReportsLost(HostId to) = 0;
  };

  Peers(Core* core, net::Transport* transport, HostId self, uint64_t incarnation);
  ~Peers();

  void SetReceiver(Receiver* receiver) { receiver_ = receiver; }
  void SetFrameReceiver(FrameReceiver* receiver) { frame_receiver_ = receiver; }
  void SetReportReceiver(ReportReceiver* receiver) { report_receiver_ = receiver; }
  // What is sent from now on carries checksums. Those that arrive are verified in any case.
  void set_checksum(bool on) { checksum_ = on; }
  void SetPeers(const pathways::v1::Peers& peers);
  bool Knows(HostId host) const { return outgoing_.count(host) > 0; }
  // Whether it pays to have data for this host in shared memory.
  bool TakesShared(HostId host) const;
  HostId self() const { return self_; }
  // Where expected transfers are to lie; what comes in one piece from shared memory stays there.
  net::Landings* landings() { return &landings_; }
  // What has gone over the present connection to a host, for tests that count.
  net::Counters counters(HostId host) const;

  using Sent = absl::AnyInvocable<void(const absl::Status&) &&>;
  void Send(HostId to, uint64_t transfer, SessionId session, Bytes data, Sent sent);
  void SendFailed(HostId to, uint64_t transfer, const absl::Status& status);
  void SendFrame(HostId to, std::string header, std::vector<Bytes> payload);
  void SendReport(HostId to, pathways::v1::Report report);

  // A connection that the listener has accepted.
  void Accept(std::unique_ptr<net::Connection> connection);

 private:
  struct Item {
    uint64_t transfer;
    SessionId session;
    Bytes data;
    size_t offset = 0;
    absl::Status failed;  // not OK: a TransferFailed instead of data
    Sent sent;
  };
  struct Outgoing;
  struct Incoming;

  void Queue(HostId to, Item item);
  void SendAhead(HostId to, const pathways::v1::PeerMessage& message, std::vector<Bytes> payload);
  void Connect(HostId to);
  void Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void Pump(HostId to);
  void PumpFrames(Outgoing* out);
  void PathBroken(HostId host, const absl::Status& reason);
  void Lend(Outgoing* out, Item item);
  void Returned(HostId to, const pathways::v1::SharedTaken& taken);
  void OutgoingLost(HostId to, const absl::Status& reason);
  void FailQueue(Outgoing* out, const absl::Status& status);
  void OnFrame(uint64_t id, const pathways::v1::PeerMessage& message, Bytes payload);
  absl::Status Handle(Incoming* in, const pathways::v1::PeerMessage& message, Bytes payload);
  void Deliver(Incoming* in, const pathways::v1::Chunk& chunk, Bytes bytes);
  absl::Status TakeShared(Incoming* in, const pathways::v1::Chunk& chunk);
  void IncomingLost(uint64_t id, const absl::Status& reason);

  net::Landings landings_;  // outlives the connections
  Core* const core_;
  net::Transport* const transport_;
  const HostId self_;
  const uint64_t incarnation_;
  Receiver* receiver_ = nullptr;
  FrameReceiver* frame_receiver_ = nullptr;
  ReportReceiver* report_receiver_ = nullptr;
  bool checksum_ = false;
  std::map<HostId, std::unique_ptr<Outgoing>> outgoing_;
  uint64_t next_incoming_ = 1;
  std::map<uint64_t, std::unique_ptr<Incoming>> incoming_;
};

}  // namespace pw::worker
