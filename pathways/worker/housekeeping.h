// Housekeeping: this host's part in the graphs by which the controller keeps the cluster in order (controller/housekeeping.h): a
// dataflow runtime, and the operators it knows:
//   "memory"   sends a v1.MemoryReport to the same shard of its outputs: what this host's devices hold
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <memory>

#include "pathways/base/timer_queue.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/core.h"
#include "pathways/worker/dataflow_links.h"

namespace pw::worker {

class Housekeeping {
 public:
  using ReportMemory = std::function<pathways::v1::MemoryReport()>;

  // `core` and `timers` outlive this. Without timers nothing is coalesced.
  Housekeeping(Core* core, HostId self, Timers* timers, ReportMemory report_memory);

  void OnFrame(const pathways::v1::DataflowFrame& frame, Bytes payload) { links_.Deliver(frame, std::move(payload)); }

 private:
  DataflowLinks links_;
  const dataflow::Operators operators_;
  dataflow::Runtime runtime_;
};

}  // namespace pw::worker
