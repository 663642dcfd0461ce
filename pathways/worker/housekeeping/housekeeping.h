// Housekeeping: this host's part in the controller's housekeeping graphs (controller/housekeeping/housekeeping.h describes each): a dataflow runtime and
// its operators. Other parts of the worker do the work (Duties).
//
// In a large cluster a host may combine the answers of others (operator "combine"), so that the controller gets one message. It may also
// forward an order to others (order_forwarder.h).
//
// A failed launch travels the other way: this host coordinates a run with one shard, at the controller.
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "pathways/base/threads/timer_queue.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/examination.pb.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/housekeeping/dataflow_links.h"
#include "pathways/worker/housekeeping/order_forwarder.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

class Housekeeping {
 public:
  struct Duties {
    std::function<void(const pathways::v1::HostConfig&)> configure;
    std::function<pathways::v1::HealthReport()> health;
    std::function<pathways::v1::MetricsReport()> metrics;
    std::function<void(const pathways::v1::CleanUp&)> clean_up;
    std::function<void(const pathways::v1::AbortLaunch&)> abort_launch;
    // Answers later, maybe inside the call.
    std::function<void(const pathways::v1::EndRecording&, std::function<void(const pathways::v1::EndedRecording&)>)> end_trace;
    std::function<absl::StatusOr<pathways::v1::ProfilePiece>(const pathways::v1::ProfilePart&)> read_profile;
    std::function<pathways::v1::Examination()> examine;
    // Answers later, maybe inside the call.
    std::function<void(const pathways::v1::StackQuestion&, std::function<void(const pathways::v1::Stacks&)>)> stacks;
  };

  // Gets the argument of a run that this host could not begin, and why.
  using OnRefused = std::function<void(const std::string& argument, const absl::Status& why)>;
  // All must outlive this. Without timers nothing is coalesced. `others`: operators of graphs that are no housekeeping.
  Housekeeping(WorkerContext* context, FrameChannel* frames, Timers* timers, Duties duties, dataflow::Operators others = {},
               OnRefused on_refused = nullptr);

  void OnFrame(const pathways::v1::DataflowFrame& frame, Bytes payload) { links_.Deliver(frame, std::move(payload)); }
  // Reports the failed launch to the controller, which tells the hosts that it names.
  void TellFailed(const pathways::v1::LaunchFailed& failed);

  void SetCoalescing(const pathways::v1::HostConfig::Coalescing& coalescing);
  pathways::v1::MetricsReport::Dataflow Counters() const;
  dataflow::Runtime& runtime() { return runtime_; }
  const dataflow::Runtime& runtime() const { return runtime_; }

 private:
  DataflowLinks links_;
  const dataflow::Operators operators_;
  dataflow::Runtime runtime_;
  OrderForwarder forwarder_;
  std::optional<dataflow::GraphId> failures_;  // created with the first failure to report
};

}  // namespace pw::worker
