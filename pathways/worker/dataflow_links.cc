#include "pathways/worker/dataflow_links.h"

#include <utility>

namespace pw::worker {

void DataflowLinks::Start(Handler* handler) {
  handler_ = handler;
  peers_->SetFrameReceiver(this);
}

void DataflowLinks::Deliver(const pathways::v1::DataflowFrame& frame, Bytes payload) {
  handler_->OnFrame(dataflow::kControllerHost, {frame.header(), std::move(payload)});
}

void DataflowLinks::OnPeerFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload) {
  if (from == dataflow::kControllerHost || from == core_->host) return;  // a host that says it is somebody else
  handler_->OnFrame(from, {frame.header(), std::move(payload)});
}

// The lanes are the stream's batches: everything of one turn leaves together, in order.
void DataflowLinks::Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane) {
  if (to != dataflow::kControllerHost) return peers_->SendFrame(to, std::move(header), std::move(payload));
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  pathways::v1::DataflowFrame* frame = core_->outbox.Add(std::move(payload))->mutable_dataflow();
  frame->set_header(std::move(header));
  frame->set_payload_bytes(bytes);
}

// All frames are made by our own code; one that does not parse is for the log of who finds it to tell.
void DataflowLinks::Disconnect(HostId host, const absl::Status& why) {
  core_->strand->Post([this, alive = core_->alive(), host, why] {
    if (!alive.expired()) handler_->OnPeerLost(host, why);
  });
}

}  // namespace pw::worker
