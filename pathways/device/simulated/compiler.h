// Compiler: compiles real programs for simulated devices, to learn the shapes and shardings of their values and how long a device of a
// given speed would take. The compiled programs never run. ZeroRuntime (zero_runtime.h), the devices of `pathways-worker --simulated-hosts`,
// uses it.
//
// All hosts of a simulated cluster share one compiler: a program over 512 hosts is compiled once, for its number of devices, and every host
// gets the same result. Devices of the same kind compile to the same code, so their identity does not matter.
//
// Any thread. One compilation at a time; all other calls wait for it.
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

// Speed of a device's link to its neighbour in a ring of devices, as collectives use it. Zero bytes per second: data takes no time.
struct RingSpeed {
  double bytes_per_second = 0;
  absl::Duration latency = absl::ZeroDuration();  // of each step
};

// Speed of one device. A zero rate takes no time.
struct DeviceSpeed {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  RingSpeed ring = {};     // for collectives inside an island
  RingSpeed between = {};  // for collectives over several islands: the slowest link sets the pace of each step
};

// The time for which a program occupies each of its devices: the time of its operations or of its memory traffic, whichever is longer, plus
// the time of its collectives.
struct Busy {
  absl::Duration inside;   // if all devices are in one island
  absl::Duration between;  // if they are in several
};
// Computes that time from a program's costs (LoadedProgram::CostAnalysis of our CPU plugin: "flops", "bytes accessed",
// "collective bytes", "collective steps"). A missing cost counts as zero.
Busy BusyWith(const std::map<std::string, double>& costs, const DeviceSpeed& speed);

// A compiled program, for any devices.
class CompiledProgram {
 public:
  CompiledProgram(std::shared_ptr<LoadedProgram> program, const Busy& busy) : program_(std::move(program)), busy_(busy) {}

  LoadedProgram& program() const { return *program_; }
  const Busy& busy() const { return busy_; }
  // Returns the program's properties for a host's devices. Hosts with the same local devices share the object.
  std::shared_ptr<const ProgramInfo> InfoFor(const std::vector<int>& devices);

 private:
  const std::shared_ptr<LoadedProgram> program_;
  const Busy busy_;
  std::mutex mu_;
  std::map<std::vector<int>, std::shared_ptr<const ProgramInfo>> infos_;  // guarded by mu_
};

class Compiler {
 public:
  // Makes a real runtime with this number of devices, which compiles the programs.
  using MakeRuntime = std::function<absl::StatusOr<std::unique_ptr<DeviceRuntime>>(int devices)>;

  // Must outlive the programs it compiled.
  Compiler(MakeRuntime make, DeviceSpeed speed) : make_(std::move(make)), speed_(speed) {}

  // Returns the real runtime's description of itself and of a device, which simulated hosts report as theirs.
  absl::StatusOr<std::pair<RuntimeInfo, DeviceInfo>> Describe();
  // Compiles the program for as many devices as it has replicas times partitions. Ignores the devices that the request names.
  // Returns the earlier result if one is still in use.
  absl::StatusOr<std::shared_ptr<CompiledProgram>> Compile(const CompileRequest& request);
  // Number of compilations. A request that gets an earlier result adds none.
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
