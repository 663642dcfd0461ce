#include "pathways/controller/housekeeping/dataflow_links.h"

namespace pw::controller {

// Ignores the lane: the outbox batches everything that one turn of the strand sends to a host, in order.
void DataflowLinks::Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane) {
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  ::pathways::v1::Command command;
  command.mutable_dataflow()->set_header(std::move(header));
  command.mutable_dataflow()->set_payload_bytes(bytes);
  outbox_->Add(to, std::move(command), std::move(payload));
}

void DataflowLinks::Disconnect(HostId host, const absl::Status& why) {
  strand_->Post([this, alive = std::weak_ptr<bool>(alive_), host, why] {
    if (!alive.expired()) lose_(host, why);
  });
}

}  // namespace pw::controller
