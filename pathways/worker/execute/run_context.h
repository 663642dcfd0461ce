// RunContext: the parts of the worker with which Loops and Choices run graphs of the controller that a host decides about. All parts outlive both.
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "pathways/dataflow/graph/graph_part.h"
#include "pathways/worker/execute/expectations.h"
#include "pathways/worker/execute/program_nodes.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/device_arrays.h"
#include "pathways/worker/store/launch_order.h"
#include "pathways/worker/transfer/frame_channel.h"

namespace pw::worker {

struct RunContext {
  WorkerContext* context;
  DeviceArrays* arrays;
  LaunchOrder* order;
  ProgramNodes* nodes;
  Expectations* expectations;
  FrameChannel* frames;
  // Returns this host's part of a graph of the controller, by its number; null if it has none.
  std::function<std::shared_ptr<const dataflow::GraphPart>(uint64_t graph)> find_part;
};

}  // namespace pw::worker
