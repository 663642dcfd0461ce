// FrameChannel: frames of the coordination dataflow (DataflowLinks), reports for the controller (ReportPath), and decisions of loops (Loops) and choices
// (Choices), from worker to worker.
//
// They leave at once, ahead of waiting transfers, or as soon as there is a link. A link outlives its connections
// (peer_connections.h), so a break only delays them. When a link is given up, both sides are told so.
//
// Invariants:
//   PF-1  frames, reports and decisions to one host arrive in order, each at most once. If any are lost, OnPathBroken reports that their
//         link was given up, before any message arrives on a later one
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/transport.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

class FrameChannel {
 public:
  // Receives frames of the dataflow. Called on the strand, never inside SendFrame.
  class FrameReceiver {
   public:
    virtual ~FrameReceiver() = default;
    virtual void OnPeerFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload) = 0;
    // A link to or from the host was given up.
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

  // Is told of hosts whose decisions come no more. Called on the strand.
  class GoneReceiver {
   public:
    virtual ~GoneReceiver() = default;
    // A link to or from the host was given up, or the host has left the cluster.
    virtual void OnHostGone(HostId host, const absl::Status& status) = 0;
  };
  // Receives decisions of loops. Called on the strand, never inside SendTurn.
  class TurnReceiver : public GoneReceiver {
   public:
    virtual void OnTurn(HostId from, const pathways::v1::LoopTurn& turn) = 0;
  };
  // Receives decisions of choices. Called on the strand, never inside SendBranch.
  class BranchReceiver : public GoneReceiver {
   public:
    virtual void OnBranch(HostId from, const pathways::v1::BranchChosen& chosen) = 0;
  };

  // `connect` begins to connect to a host, unless that has begun.
  FrameChannel(const WorkerContext* context, std::function<void(HostId)> connect);

  void SetFrameReceiver(FrameReceiver* receiver) { frame_receiver_ = receiver; }
  void SetReportReceiver(ReportReceiver* receiver) { report_receiver_ = receiver; }
  void SetTurnReceiver(TurnReceiver* receiver) { turn_receiver_ = receiver; }
  void SetBranchReceiver(BranchReceiver* receiver) { branch_receiver_ = receiver; }
  void SendFrame(HostId to, std::string header, std::vector<Bytes> payload);
  void SendReport(HostId to, pathways::v1::Report report);
  void SendTurn(HostId to, const pathways::v1::LoopTurn& turn);
  void SendBranch(HostId to, const pathways::v1::BranchChosen& chosen);

  // ---- for PeerConnections
  void Add(HostId host) { peers_.try_emplace(host); }
  // Forgets a host that has left, with its waiting frames. TellLeft tells the receiver of the dataflow.
  void Remove(HostId host, const absl::Status& status);
  void TellLeft(HostId host, const absl::Status& status);
  // There is a link to the host. It is valid until Broken or Remove.
  void Connected(HostId host, net::FrameSink* link);
  // There is no link to the host: it was given up, or could not be made.
  void Broken(HostId host, const absl::Status& status);
  // The link from the host was given up.
  void IncomingLost(HostId host, const absl::Status& status);
  absl::Status OnFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload);
  void OnReport(HostId from, const pathways::v1::Report& report);
  void OnTurn(HostId from, const pathways::v1::LoopTurn& turn);
  void OnBranch(HostId from, const pathways::v1::BranchChosen& chosen);

 private:
  struct Peer {
    net::FrameSink* link = nullptr;
    std::vector<std::pair<std::string, std::vector<Bytes>>> waiting;  // for the link
  };

  void Send(HostId to, const pathways::v1::PeerMessage& message, std::vector<Bytes> payload);
  void PathBroken(HostId host, const absl::Status& reason);
  void TellGone(HostId host, const absl::Status& status);

  const WorkerContext* const context_;
  const std::function<void(HostId)> connect_;
  FrameReceiver* frame_receiver_ = nullptr;
  ReportReceiver* report_receiver_ = nullptr;
  TurnReceiver* turn_receiver_ = nullptr;
  BranchReceiver* branch_receiver_ = nullptr;
  std::map<HostId, Peer> peers_;
};

}  // namespace pw::worker
