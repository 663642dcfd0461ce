// SimulatedRuntime: a device runtime that does arithmetic on host memory, with the real interface and asynchrony but no accelerator. For
// tests and the simulator.
//
// Its programs are text of format "sim": words `key=value` separated by spaces.
//   - args=N outputs=M    all of type f32 and shape `dims`: result k is k + 1 + sum over i of (i + 1) * argument i, for each
//     element
//   - dims=4x2            the shape of each; empty for a scalar
//   - donate=0,2          arguments that the program takes over
//   - below=5             makes one more result, a pred: whether the first element of result 0 is less than 5
//   - index=1             makes one more result, an s32: the first element of result 0, without its fraction
//   - fail=TEXT           every execution fails with INTERNAL and this text ('_' stands for a space)
//   - hold=1              executions do not end before ReleaseHeld()
//   - us=50               the time that the devices are busy; ignored without timers
//   - ring=800:6          bytes and steps that its collectives send: reported as costs, without effect here
//   - pathways_host_callback=7  result 0 is the reply of host callback 7 to the arguments
//   - invalid=TEXT        does not compile
//   - StableHLO_v1.13.0   the StableHLO version of the program; compiles only if it is the runtime's
//
// Reading a donated buffer fails, so that tests notice a hazard.
//
// With timers a device executes one program after another, in the order of the Execute calls, and all devices of an execution begin it
// together. Without timers, an execution ends as soon as its inputs exist.
//
// Any thread. Work runs on the executor, or inside the call that makes it possible if there is none.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
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
  // Only notes it.
  void AbortLaunch(int launch_id, const absl::Status& why) override;
  void SetHostCallHandler(HostCallHandler handler) override;

  // Lets executions of programs with hold=1 end, including later ones.
  void ReleaseHeld();
  // Number of Compile calls, not counting Load.
  int compilations() const;
  // Number of buffers not yet destroyed.
  int live_buffers() const;
  // Launch ids in the order of the Execute calls.
  std::vector<int> launches() const;
  // Launch ids of the AbortLaunch calls.
  std::vector<int> aborted() const;

  struct State;  // shared by programs and buffers

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace pw::device
