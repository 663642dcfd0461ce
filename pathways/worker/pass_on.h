// PassOn: tells an order of the controller to other hosts, and gathers what they answer (v1.PassOn). So an order for a large cluster
// costs the controller a message for each group of hosts. This host is the coordinator of a run over the group then.
//
// A host that is lost ends the run: what the others had answered by then is all that is reported, and the controller tells the rest
// itself. The graph is kept for the next order to the same hosts.
//
// Invariant PN-1: every order is reported once, unless this object goes before.
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pathways/dataflow/runtime.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/worker/core.h"

namespace pw::worker {

class PassOn {
 public:
  // Both outlive this.
  PassOn(Core* core, dataflow::Runtime* runtime) : core_(core), runtime_(runtime) {}

  // For runs of the controller, whose argument is the order, and whose one output takes the report.
  std::unique_ptr<dataflow::Operator> MakeOperator();

 private:
  using Done = std::function<void(const pathways::v1::PassedOn&)>;
  class Order;
  void Tell(const pathways::v1::PassOn& order, Done done);
  absl::StatusOr<dataflow::GraphId> GraphOver(const std::string& op, const dataflow::HostSet& hosts);
  int64_t Now() const { return absl::ToUnixNanos(core_->recorder.Now()); }

  struct Known {
    std::string op;
    dataflow::HostSet hosts;
    dataflow::GraphId graph;
  };
  Core* const core_;
  dataflow::Runtime* const runtime_;
  std::optional<Known> known_;
};

}  // namespace pw::worker
