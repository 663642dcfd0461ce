// DataflowLinks: carries the frames of the coordination dataflow between the controller and the hosts, inside the control streams.
// Housekeeping uses it. A host is lost when membership says so. Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/threads/executor.h"
#include "pathways/dataflow/links.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class DataflowLinks : public dataflow::Links {
 public:
  // Ends the host's membership, which leads to OnPeerLost.
  using Lose = std::function<void(HostId host, const absl::Status& why)>;

  // All pointers must outlive this.
  DataflowLinks(dispatch::Outbox* outbox, Executor* strand, Lose lose)
      : outbox_(outbox), strand_(strand), lose_(std::move(lose)) {}

  void Deliver(HostId from, const ::pathways::v1::DataflowFrame& frame, Bytes payload) {
    handler_->OnFrame(from, {frame.header(), std::move(payload)});
  }
  void RemoveHost(HostId host, const absl::Status& reason) { handler_->OnPeerLost(host, reason); }

  void Start(Handler* handler) override { handler_ = handler; }
  void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) override;
  void Disconnect(HostId host, const absl::Status& why) override;

 private:
  dispatch::Outbox* const outbox_;
  Executor* const strand_;
  const Lose lose_;
  Handler* handler_ = nullptr;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
