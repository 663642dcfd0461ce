// DataflowLinks: the dataflow runtime's links from this host. Frames for the controller go in the control stream. Frames for other hosts go
// over the connections that carry arrays (PeerConnections), which are opened on first use.
//
// Only the controller decides membership: a host is lost when the controller says that it has left. A link that was given up is a broken
// path and nothing more (links.h, DL-3). A connection that is made again is not even that.
// Lives on the worker's strand.
#pragma once

#include <string>
#include <vector>

#include "pathways/dataflow/graph/ids.h"
#include "pathways/dataflow/links.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/transfer/frame_channel.h"

namespace pw::worker {

class DataflowLinks : public dataflow::Links, private FrameChannel::FrameReceiver {
 public:
  // Both outlive this.
  DataflowLinks(WorkerContext* context, FrameChannel* frames) : context_(context), frames_(frames) {}
  ~DataflowLinks() override { frames_->SetFrameReceiver(nullptr); }

  // Passes on a frame from the controller.
  void Deliver(const pathways::v1::DataflowFrame& frame, Bytes payload);

  void Start(Handler* handler) override;
  void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) override;
  void Disconnect(HostId host, const absl::Status& why) override;

 private:
  void OnPeerFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload) override;
  void OnPathBroken(HostId host, const absl::Status& status) override { handler_->OnPeerBroken(host, status); }
  void OnLeft(HostId host, const absl::Status& status) override { handler_->OnPeerLost(host, status); }

  WorkerContext* const context_;
  FrameChannel* const frames_;
  Handler* handler_ = nullptr;
};

}  // namespace pw::worker
