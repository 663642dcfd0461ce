// DataflowLinks: the dataflow's ways from this host: to the controller inside the control stream, to other hosts over the connections that
// carry arrays (Peers), made when there is first something to send.
//
// Who belongs to the cluster is the control stream's to know: a host is lost when the controller says that it has left, and a
// connection that breaks is a way that has broken, no more (links.h, LK-3).
// Lives on the worker's strand.
#pragma once

#include <string>
#include <vector>

#include "pathways/dataflow/ids.h"
#include "pathways/dataflow/links.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/core.h"
#include "pathways/worker/peers.h"

namespace pw::worker {

class DataflowLinks : public dataflow::Links, private Peers::FrameReceiver {
 public:
  // Both outlive this.
  DataflowLinks(Core* core, Peers* peers) : core_(core), peers_(peers) {}
  ~DataflowLinks() override { peers_->SetFrameReceiver(nullptr); }

  // From the controller.
  void Deliver(const pathways::v1::DataflowFrame& frame, Bytes payload);

  void Start(Handler* handler) override;
  void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) override;
  void Disconnect(HostId host, const absl::Status& why) override;

 private:
  void OnPeerFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload) override;
  void OnPathBroken(HostId host, const absl::Status& status) override { handler_->OnPeerBroken(host, status); }
  void OnLeft(HostId host, const absl::Status& status) override { handler_->OnPeerLost(host, status); }

  Core* const core_;
  Peers* const peers_;
  Handler* handler_ = nullptr;
};

}  // namespace pw::worker
