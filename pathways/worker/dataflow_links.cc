#include "pathways/worker/dataflow_links.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::worker {

void DataflowLinks::Deliver(const pathways::v1::DataflowFrame& frame, Bytes payload) {
  handler_->OnFrame(dataflow::kControllerHost, {frame.header(), std::move(payload)});
}

// The lanes are the stream's batches: everything of one turn leaves together, in order.
void DataflowLinks::Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane) {
  if (to != dataflow::kControllerHost) {
    return LoseLater(to, absl::UnimplementedError(absl::StrCat("no dataflow goes directly to ", ToString(to), " yet")));
  }
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  pathways::v1::DataflowFrame* frame = core_->outbox.Add(std::move(payload))->mutable_dataflow();
  frame->set_header(std::move(header));
  frame->set_payload_bytes(bytes);
}

// The controller's frames are made by our own code; one that does not parse is for its log to tell.
void DataflowLinks::Disconnect(HostId host, const absl::Status& why) { LoseLater(host, why); }

void DataflowLinks::LoseLater(HostId host, const absl::Status& reason) {
  core_->strand->Post([this, alive = core_->alive(), host, reason] {
    if (!alive.expired()) handler_->OnPeerLost(host, reason);
  });
}

}  // namespace pw::worker
