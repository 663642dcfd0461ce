// Compiler: what simulated devices know of a real program: its values' shapes and shardings, and how long a device of a given
// speed would take for it. A device runtime that only compiles says so; what it compiled never runs.
//
// All hosts of a simulated cluster share one compiler: a program over 512 of them is compiled once, for as many devices as it
// has, and every host gets the same result. Devices of the same kind make the same code, so which ones they are does not matter.
//
// Any thread. One compilation at a time: who asks for what is being compiled waits for it, and does not do it again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "pathways/device/device.h"

namespace pw::device {

// What a device sends to its neighbour while a collective goes round a ring of devices. 0: takes no time.
struct RingSpeed {
  double bytes_per_second = 0;
  absl::Duration latency = absl::ZeroDuration();  // of each step
};

// Of one device. 0: what it says takes no time.
struct DeviceSpeed {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  RingSpeed ring = {};     // of collectives inside an island
  RingSpeed between = {};  // of those over several: every step waits for the slowest link, which is one between islands
};

// How long each device is busy with a program: by the compiler's count of operations and of bytes moved, whichever takes longer,
// and then by what its collectives send ("collective bytes" and "collective steps" of the CPU plugin's costs).
struct Busy {
  absl::Duration inside;   // an island
  absl::Duration between;  // several
};
Busy BusyWith(const std::map<std::string, double>& costs, const DeviceSpeed& speed);

// A program, for whichever devices.
class CompiledProgram {
 public:
  CompiledProgram(std::shared_ptr<LoadedProgram> program, const Busy& busy) : program_(std::move(program)), busy_(busy) {}

  LoadedProgram& program() const { return *program_; }
  const Busy& busy() const { return busy_; }
  // What there is to know, for a host's devices. Hosts that have the same local devices share it.
  std::shared_ptr<const ProgramInfo> InfoFor(const std::vector<int>& devices);

 private:
  const std::shared_ptr<LoadedProgram> program_;
  const Busy busy_;
  std::mutex mu_;
  std::map<std::vector<int>, std::shared_ptr<const ProgramInfo>> infos_;  // guarded by mu_
};

class Compiler {
 public:
  // A runtime with so many devices.
  using MakeRuntime = std::function<absl::StatusOr<std::unique_ptr<DeviceRuntime>>(int devices)>;

  // It outlives what it compiled.
  Compiler(MakeRuntime make, DeviceSpeed speed) : make_(std::move(make)), speed_(speed) {}

  // What the runtime says of itself and of a device.
  absl::StatusOr<std::pair<RuntimeInfo, DeviceInfo>> Describe();
  absl::StatusOr<std::shared_ptr<CompiledProgram>> Compile(const CompileRequest& request);
  // How many programs were compiled, each counted once however many hosts asked.
  int compilations() const;

 private:
  using Key = std::tuple<std::string, std::string, std::string, int, int, bool>;

  absl::StatusOr<DeviceRuntime*> RuntimeFor(int devices);

  const MakeRuntime make_;
  const DeviceSpeed speed_;
  mutable std::mutex mu_;
  std::map<int, std::unique_ptr<DeviceRuntime>> runtimes_;  // by their number of devices; guarded by mu_
  std::map<Key, std::weak_ptr<CompiledProgram>> programs_;  // guarded by mu_
  int compilations_ = 0;                                    // guarded by mu_
};

}  // namespace pw::device
