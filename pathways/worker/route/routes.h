// Routes: the operators of the nodes of routes (route.proto), and this host's part of their runs.
//
// `route-send` reads the rows that this host sends, and their keys, when they exist. It sends each row to the hosts of its key, in tuples of about a
// MiB, as fast as the engine takes them, and nothing to hosts that get no rows. `route-receive` keeps what comes. When the edge closes, it has all,
// and makes its arrays. These exist at once, as pending, so that later commands may name them.
//
// A run takes its place among the host's other commands when it begins: it reads the arrays that have the names then (hazards.h).
//
// Invariants:
//   RO-1  a run is answered exactly once: when this host has sent all its rows and its arrays have settled, or either has failed
//   RO-2  a failed sender fails all arrays of the route, as each may miss rows. A failed receiver fails its own
//   RO-3  a run that comes again, from another controller, sends and makes nothing, and fails where it is awaited: it must not take the place of
//         rows that the first one has sent
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>

#include "pathways/dataflow/operator.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/route.pb.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/host_memory.h"
#include "pathways/worker/store/host_quota.h"

namespace pw::worker {

class Routes {
 public:
  // `runtime`: returns the one that runs the operators. All outlive this.
  Routes(WorkerContext* context, DeviceArrays* arrays, HostMemory* host_memory, HostQuota* quota,
         std::function<dataflow::Runtime*()> runtime)
      : context_(context), arrays_(arrays), host_memory_(host_memory), quota_(quota), runtime_(std::move(runtime)) {}
  Routes(const Routes&) = delete;

  // Adds the operators. This must outlive the runtime that uses them.
  void AddTo(dataflow::Operators* operators);
  // The latest run could not begin. Does nothing if it has another argument.
  void Refuse(const std::string& argument, const absl::Status& why);

 private:
  class Run;
  class Sender;
  class Receiver;
  using RunRef = std::shared_ptr<Run>;

  absl::StatusOr<RunRef> RunOf(const dataflow::OperatorContext& context);
  absl::StatusOr<std::unique_ptr<dataflow::Operator>> MakeSender(const dataflow::OperatorContext& context);
  absl::StatusOr<std::unique_ptr<dataflow::Operator>> MakeReceiver(const dataflow::OperatorContext& context);

  WorkerContext* const context_;
  DeviceArrays* const arrays_;
  HostMemory* const host_memory_;
  HostQuota* const quota_;
  const std::function<dataflow::Runtime*()> runtime_;
  std::weak_ptr<Run> latest_;
};

}  // namespace pw::worker
