// ZeroRuntime: a simulated device runtime for real programs. It compiles them for their shapes but computes nothing: results are zeros of
// the right type, shape and sharding. A device is busy for as long as its speed implies (compiler.h). Uploaded arrays keep their contents,
// also when copied. For simulated clusters that stock clients connect to.
//
// A device executes one program after another, in the order of the Execute calls. All devices of an execution begin it together, on all its
// hosts (meetings.h). It begins when the devices are free, the inputs exist and the call has been made, whichever is last, and ends when
// its time is over. Both are computed points in time, so work enqueued ahead follows without a gap, as on a device with a queue, however
// late this machine's threads and timers are. Collectives take the time of a ring of the devices, after the rest of the program. Host
// callbacks are not called.
//
// Zeros take no memory: all results are views of the same read-only pages.
//
// Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/device/device.h"
#include "pathways/device/simulated/compiler.h"
#include "pathways/device/simulated/meetings.h"
#include "pathways/device/simulated/zeros.h"

namespace pw::device {

struct ZeroOptions {
  std::string process;  // this host's name in its cluster
  int devices = 4;
  // Returns the island of a host by its name; null: there is one island.
  std::function<int(const std::string& process)> island_of = nullptr;
  // All outlive the runtime. The last three are the cluster's.
  Executor* executor = nullptr;
  Clock* clock = nullptr;
  Timers* timers = nullptr;
  Compiler* compiler = nullptr;
  Meetings* meetings = nullptr;
  Zeros* zeros = nullptr;
};

// Fails with the compiler's error if Compiler::Describe fails.
absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeZeroRuntime(const ZeroOptions& options);

}  // namespace pw::device
