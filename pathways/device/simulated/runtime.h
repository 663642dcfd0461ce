// A simulated device runtime: arithmetic on host memory. For tests and the simulator; same interface, same asynchrony, no
// accelerator.
//
// Its programs are text of format "sim": words `key=value` separated by spaces.
//   args=N outputs=M   all of type f32 and shape `dims`: result k is k + 1 + sum over i of (i + 1) * argument i, for each element
//   dims=4x2           the shape of each; empty for a scalar
//   donate=0,2         arguments that it takes over
//   fail=TEXT          every execution fails with INTERNAL and this text ('_' stands for a space)
//   hold=1             executions do not end before ReleaseHeld()
//   us=50              how long the devices are busy with it; counts only where there are timers
//   ring=800:6         what its collectives send, bytes and steps: costs that it tells, of which nothing follows here
//   callback=7         result 0 is what host callback 7 answers to the arguments
//   invalid=TEXT       does not compile
//   StableHLO_v1.13.0  for which version it was written; compiles if that is the runtime's
// A donated buffer can no longer be read: that is how tests notice a hazard.
//
// With timers a device does one thing after another, in the order of the Execute calls, and all devices of an execution begin it
// together. Without, an execution ends when its inputs are there.
//
// Any thread. Work runs on the executor given, or inside the call that makes it possible if there is none.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pathways/base/executor.h"
#include "pathways/base/timer_queue.h"
#include "pathways/device/device.h"

namespace pw::device {

struct SimulatedOptions {
  int devices = 4;
  Executor* executor = nullptr;
  Timers* timers = nullptr;  // needs an executor
  std::string platform_name = "cpu";
  std::string stablehlo_version = "1.13.0";
  std::string process = {};  // how other processes name this one; empty: programs cannot span processes
};

class SimulatedRuntime : public DeviceRuntime {
 public:
  explicit SimulatedRuntime(SimulatedOptions options);
  ~SimulatedRuntime() override;

  const RuntimeInfo& info() const override;
  const std::vector<DeviceInfo>& devices() const override;
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> FromHost(HostArray array, int device, absl::string_view memory_kind) override;
  absl::StatusOr<std::shared_ptr<LoadedProgram>> Compile(const CompileRequest& request) override;
  absl::StatusOr<std::shared_ptr<LoadedProgram>> Load(const std::string& serialized, const CompileRequest& request) override;
  absl::StatusOr<MemoryUsage> Memory(int device) override;
  void SetHostCallHandler(HostCallHandler handler) override;

  // Lets executions of programs with hold=1 end, those to come included.
  void ReleaseHeld();
  // How often Compile ran, not counting Load.
  int compilations() const;
  // Buffers that have not been destroyed.
  int live_buffers() const;
  // Launch ids in the order of the Execute calls.
  std::vector<int> launches() const;

  struct State;  // what programs and buffers share

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace pw::device
