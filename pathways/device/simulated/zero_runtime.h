// A simulated device runtime for real programs: it compiles them for their shapes, and computes nothing. Results are zeros of the
// right type, shape and sharding; a device is busy for as long as its speed says (compiler.h). What is uploaded keeps its
// contents, also through copies. For simulated clusters that stock clients connect to.
//
// A device does one thing after another, in the order of the Execute calls; all devices of an execution begin it together, on all
// its hosts (meetings.h). It begins when the devices are free, its inputs there and the call made, whichever comes last, and ends
// when its time is over: both are points in time that nobody has to be awake at. What was enqueued ahead follows without a gap,
// as on a device that has a queue, however late this machine's threads and timers are. Collectives take what they would round a
// ring of the devices, after all else that the program does. Host callbacks are not called.
//
// Zeros take no memory: all results are views of the same pages, which nothing ever writes to.
//
// Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pathways/base/clock.h"
#include "pathways/base/executor.h"
#include "pathways/base/timer_queue.h"
#include "pathways/device/device.h"
#include "pathways/device/simulated/compiler.h"
#include "pathways/device/simulated/meetings.h"
#include "pathways/device/simulated/zeros.h"

namespace pw::device {

struct ZeroOptions {
  std::string process;  // this host's name among those of one cluster
  int devices = 4;
  // The island of a host by its name; null: there is one.
  std::function<int(const std::string& process)> island_of = nullptr;
  // All outlive the runtime. The last three are the cluster's.
  Executor* executor = nullptr;
  Clock* clock = nullptr;
  Timers* timers = nullptr;
  Compiler* compiler = nullptr;
  Meetings* meetings = nullptr;
  Zeros* zeros = nullptr;
};

// An error of the compiler, which is asked what it is.
absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeZeroRuntime(const ZeroOptions& options);

}  // namespace pw::device
