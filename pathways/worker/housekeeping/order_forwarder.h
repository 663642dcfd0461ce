// OrderForwarder: forwards an order of the controller to other hosts and gathers their answers (v1.ForwardOrder). An order for a large cluster
// then costs the controller one message per group of hosts. This host coordinates a run over the group.
//
// The answer of a host that is lost, or to which the way breaks, is missing in the report; the others are in it. The controller tells such
// hosts itself. The graph is kept for the next order to the same hosts.
//
// Invariant PN-1: every order is reported once, unless this object is destroyed first.
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pathways/dataflow/runtime.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

class OrderForwarder {
 public:
  // Both outlive this.
  OrderForwarder(WorkerContext* context, dataflow::Runtime* runtime) : context_(context), runtime_(runtime) {}

  // Makes the operator for runs of the controller; its argument is the order and its only output is the report.
  std::unique_ptr<dataflow::Operator> MakeOperator();

 private:
  using Done = std::function<void(const pathways::v1::ForwardReport&)>;
  class Order;
  void Tell(const pathways::v1::ForwardOrder& order, Done done);
  absl::StatusOr<dataflow::GraphId> GraphOver(const std::string& op, const dataflow::HostSet& hosts);
  int64_t Now() const { return absl::ToUnixNanos(context_->recorder().Now()); }

  struct Known {
    std::string op;
    dataflow::HostSet hosts;
    dataflow::GraphId graph;
  };
  WorkerContext* const context_;
  dataflow::Runtime* const runtime_;
  std::optional<Known> known_;
};

}  // namespace pw::worker
