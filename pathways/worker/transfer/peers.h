// Peers: direct connections to other workers, one in each direction, opened on first use.
//
// Data flows from the connecting side (peer.proto). Transfers to one peer leave in order, in chunks, as fast as the connection accepts
// them. When a connection breaks, queued transfers fail with UNAVAILABLE naming the host, and so do those that the other side awaits. The
// next transfer connects again, and first reports as failed the transfers that the broken connection may have lost.
//
// The same connections carry frames of the coordination dataflow (DataflowLinks) and reports for the controller (ReportPath). These go
// ahead of waiting transfers. They are not sent again after a connection breaks; both sides are told that it broke.
//
// Invariants:
//   PE-1  a connection without a hello, without a worker's certificate where TLS is on, or from another controller's lifetime, is refused
//   PE-2  every Send is reported once, with OK or the error. OK means that the last chunk has been handed to the connection. If
//         shared memory was named instead, it means that the peer has opened the memory or the connection has broken
//   PE-3  a payload that does not match its checksum fails its transfer with DATA_LOSS, and nothing else
//   PE-4  frames and reports to one host arrive in order, each at most once. If any are lost, OnPathBroken reports that their
//         connection broke, before any message arrives on a later one
// Lives on the worker's strand; the connections' threads only post to it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "pathways/net/receive_buffers.h"
#include "pathways/net/transport.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/host_memory.h"

namespace pw::worker {

class Peers {
 public:
  // Receives transfers from peers. Set before anything is accepted.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    virtual void OnChunk(HostId from, const pathways::v1::Chunk& chunk, Bytes payload) = 0;
    virtual void OnTransferFailed(HostId from, uint64_t transfer, const absl::Status& status) = 0;
    virtual void OnPeerLost(HostId host, const absl::Status& status) = 0;
  };

  // Receives frames of the dataflow. Called on the strand, never inside SendFrame.
  class FrameReceiver {
   public:
    virtual ~FrameReceiver() = default;
    virtual void OnPeerFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload) = 0;
    // The connection broke, in either direction.
    virtual void OnPathBroken(HostId host, const absl::Status& status) = 0;
    virtual void OnLeft(HostId host, const absl::Status& status) = 0;  // has left the cluster
  };

  // Receives reports. Called on the strand, never inside SendReport.
  class ReportReceiver {
   public:
    virtual ~ReportReceiver() = default;
    virtual void OnReport(HostId from, pathways::v1::Report report) = 0;
    // Reports sent to this host that have not arrived are lost.
    virtual void OnReportsLost(HostId to) = 0;
  };

  Peers(WorkerContext* context, const HostMemory* host_memory, net::Transport* transport, uint64_t incarnation);
  ~Peers();

  void SetReceiver(Receiver* receiver) { receiver_ = receiver; }
  void SetFrameReceiver(FrameReceiver* receiver) { frame_receiver_ = receiver; }
  void SetReportReceiver(ReportReceiver* receiver) { report_receiver_ = receiver; }
  // Sends checksums with data from now on. Received checksums are always verified.
  void set_checksum(bool on) { checksum_ = on; }
  void SetPeers(const pathways::v1::Peers& peers);
  bool Knows(HostId host) const { return outgoing_.count(host) > 0; }
  // Returns whether data for this host should be placed in shared memory.
  bool TakesShared(HostId host) const;
  // Destinations of expected transfers. A transfer that arrives whole in shared memory stays there.
  net::ReceiveBuffers* receive_buffers() { return &receive_buffers_; }
  // Traffic of the current connection to a host; for tests.
  net::Counters counters(HostId host) const;

  using Sent = absl::AnyInvocable<void(const absl::Status&) &&>;
  void Send(HostId to, uint64_t transfer, SessionId session, Bytes data, Sent sent);
  void SendFailed(HostId to, uint64_t transfer, const absl::Status& status);
  void SendFrame(HostId to, std::string header, std::vector<Bytes> payload);
  void SendReport(HostId to, pathways::v1::Report report);

  // Takes a connection that the listener has accepted.
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

  net::ReceiveBuffers receive_buffers_;  // outlives the connections
  WorkerContext* const context_;
  const HostMemory* const host_memory_;
  net::Transport* const transport_;
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
