#include "pathways/worker/housekeeping/dataflow_links.h"

#include <utility>

namespace pw::worker {

void DataflowLinks::Start(Handler* handler) {
  handler_ = handler;
  frames_->SetFrameReceiver(this);
}

void DataflowLinks::Deliver(const pathways::v1::DataflowFrame& frame, Bytes payload) {
  handler_->OnFrame(dataflow::kControllerHost, {frame.header(), std::move(payload)});
}

void DataflowLinks::OnPeerFrame(HostId from, const pathways::v1::DataflowFrame& frame, Bytes payload) {
  if (from == dataflow::kControllerHost || from == context_->self()) return;  // claims another host's identity
  handler_->OnFrame(from, {frame.header(), std::move(payload)});
}

// Ignores the lane: the stream's batches serve instead. Everything from one turn leaves together, in order.
void DataflowLinks::Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane) {
  if (to != dataflow::kControllerHost) return frames_->SendFrame(to, std::move(header), std::move(payload));
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  pathways::v1::DataflowFrame* frame = context_->outbox().Add(std::move(payload))->mutable_dataflow();
  frame->set_header(std::move(header));
  frame->set_payload_bytes(bytes);
}

// Only reports the host as lost. All frames come from our own code, so a malformed one is a bug; its finder logs it.
void DataflowLinks::Disconnect(HostId host, const absl::Status& why) {
  context_->strand()->Post([this, alive = context_->alive(), host, why] {
    if (!alive.expired()) handler_->OnPeerLost(host, why);
  });
}

}  // namespace pw::worker
