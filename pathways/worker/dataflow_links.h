// DataflowLinks: the dataflow's way from this host to the controller, inside the control stream. Who belongs to the cluster is
// the stream's to know, so nothing is ever lost here but with the whole Worker.
//
// Other hosts are not reached this way: the controller's housekeeping graphs have edges between it and the hosts only.
// Lives on the worker's strand.
#pragma once

#include <string>
#include <vector>

#include "pathways/dataflow/ids.h"
#include "pathways/dataflow/links.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/core.h"

namespace pw::worker {

class DataflowLinks : public dataflow::Links {
 public:
  // `core` outlives this.
  explicit DataflowLinks(Core* core) : core_(core) {}

  void Deliver(const pathways::v1::DataflowFrame& frame, Bytes payload);

  void Start(Handler* handler) override { handler_ = handler; }
  void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) override;
  void Disconnect(HostId host, const absl::Status& why) override;

 private:
  void LoseLater(HostId host, const absl::Status& reason);

  Core* const core_;
  Handler* handler_ = nullptr;
};

}  // namespace pw::worker
