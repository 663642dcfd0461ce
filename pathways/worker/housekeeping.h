// Housekeeping: this host's part in the graphs by which the controller keeps the cluster in order (controller/housekeeping.h, which
// says what each is for): a dataflow runtime, and the operators it knows. The parts of the worker do the work (Duties).
//
// In a large cluster a host may have to add up what others answer (the operator "combine"): they send it here, and the controller hears
// of it in one message; or to tell others what it was told (pass_on.h).
//
// A failed launch goes the other way: this host is the coordinator of a run with one shard, at the controller.
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "pathways/base/timer_queue.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/core.h"
#include "pathways/worker/dataflow_links.h"
#include "pathways/worker/pass_on.h"

namespace pw::worker {

class Housekeeping {
 public:
  struct Duties {
    std::function<void(const pathways::v1::HostConfig&)> configure;
    std::function<pathways::v1::HealthReport()> health;
    std::function<pathways::v1::MetricsReport()> metrics;
    std::function<void(const pathways::v1::CleanUp&)> clean_up;
    std::function<void(const pathways::v1::AbortLaunch&)> abort_launch;
    std::function<pathways::v1::TraceReport()> end_trace;
  };

  // All outlive this. Without timers nothing is coalesced.
  Housekeeping(Core* core, Peers* peers, HostId self, Timers* timers, Duties duties);

  void OnFrame(const pathways::v1::DataflowFrame& frame, Bytes payload) { links_.Deliver(frame, std::move(payload)); }
  // The controller tells the hosts that it names.
  void TellFailed(const pathways::v1::LaunchFailed& failed);

  void SetCoalescing(const pathways::v1::HostConfig::Coalescing& coalescing);
  pathways::v1::MetricsReport::Dataflow Counters() const;

 private:
  DataflowLinks links_;
  const dataflow::Operators operators_;
  dataflow::Runtime runtime_;
  PassOn pass_on_;
  std::optional<dataflow::GraphId> failures_;  // once one had to be told
};

}  // namespace pw::worker
