// DeviceRuntime: the interface between a worker and the accelerators of its host.
//
// Implementations: pjrt/ (any PJRT plugin, by path) and simulated/ (arithmetic on host memory, for tests and the simulator).
// Devices are named by their local ordinal, the index in devices(). All work is asynchronous: a buffer exists and can be passed on before
// its contents do; errors travel with buffers and futures.
//
// Invariants:
//   DV-1  any method may be called on any thread; read-only calls may run concurrently. Two executions that share a device run on it in the
//         order of the Execute calls, so the caller makes those calls on one thread
//   DV-2  a runtime outlives its programs and buffers
//   DV-3  dropping a buffer is always safe: its memory stays until the work enqueued on it is done
//   DV-4  host memory is dense and row-major unless strides are given; types narrower than a byte take one byte per element
//   DV-5  no call blocks for device work, even if the plugin's own call does; Compile and Load block for the compiler
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/future.h"
#include "pathways/buffers/dtype.h"

namespace pw::device {

using buffers::DType;
using Dims = std::vector<int64_t>;

struct MemoryInfo {
  std::string kind;
  int kind_id = 0;
};

struct DeviceInfo {
  int runtime_id = 0;  // its id in programs
  int local_hardware_id = 0;
  std::string kind;
  std::string debug_string;
  std::string to_string;
  std::vector<MemoryInfo> memories;  // the first is the default
  std::map<std::string, int64_t> int_attributes;
  std::map<std::string, std::string> string_attributes;
  std::map<std::string, std::vector<int64_t>> coordinate_attributes;
};

struct RuntimeInfo {
  std::string platform_name;
  std::string platform_version;
  std::string stablehlo_version;  // the newest it reads, "1.13.0"; empty if unknown
  std::string xla_version;
  std::string process_address;  // how other processes' programs name this one; empty: programs cannot span processes
};

struct MemoryUsage {
  int64_t used_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t limit_bytes = 0;  // 0: unlimited or unknown
};

// An array in host memory. `byte_strides` may be negative or in any order; `data` is then the smallest region that they span.
struct HostArray {
  Bytes data;
  DType dtype = DType::kInvalid;
  Dims dims;
  std::optional<Dims> byte_strides;
  bool exclusive = false;  // `data` has no other reader: the runtime may write to it once the buffer is donated
};

class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual DType dtype() const = 0;
  virtual const Dims& dims() const = 0;
  virtual int device() const = 0;
  virtual const std::string& memory_kind() const = 0;
  // Returns a future that is set once the contents exist, or to the error if they never will.
  virtual Future<Unit> Ready() = 0;
  // Returns a dense row-major copy.
  virtual Future<Bytes> ToHost() = 0;
  // The same into the caller's memory: `size` bytes at `out`, exactly the size of the contents; `owner` keeps that memory alive.
  virtual Future<Unit> CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void> owner) = 0;
  // Returns the contents in place, if they are in host memory, dense and row-major; else UNIMPLEMENTED. REQUIRES: ready. While the view
  // lives, the buffer must live and must not be donated.
  virtual absl::StatusOr<Bytes> HostView() { return absl::UnimplementedError("the contents do not lie in host memory"); }
  // Copies to a memory of any device of this runtime. An empty kind means that device's default memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> CopyTo(int device, absl::string_view memory_kind) = 0;
};

// The part of an argument or result on one device, and the sharding that combines the parts.
struct ValueInfo {
  DType dtype = DType::kInvalid;
  Dims dims;
  std::string op_sharding;  // a serialized xla.OpSharding; empty: replicated
  std::string layout;       // a serialized xla.LayoutProto; empty: unknown
  std::string memory_kind;
};

struct ProgramInfo {
  std::string name;
  std::string fingerprint;
  std::vector<ValueInfo> outputs;
  std::vector<ValueInfo> parameters;
  std::vector<int32_t> donated_inputs;  // ascending; taken over by the compiled code unless excluded (non_donatable)
  int64_t code_bytes = 0;
  std::string memory_stats;  // a serialized xla.CompiledMemoryStatsProto; empty: unknown
  std::vector<int> devices;  // local ordinal of each position
};

struct LaunchOptions {
  int launch_id = 0;  // unique to the launch; for a program that spans processes, the same in all of them
  std::vector<int64_t> non_donatable;
  SessionId session;  // owner of the launch's host callbacks
};

// The time during which the devices were busy with a launch.
struct Interval {
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfinitePast();
};

struct Launch {
  std::vector<std::unique_ptr<DeviceBuffer>> outputs;  // result k of position p at [p * results + k]
  Future<Unit> done;                                   // set when all devices are done
  std::shared_ptr<const Interval> busy;                // valid once `done` is set; null if the runtime cannot tell
};

class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  virtual const ProgramInfo& info() const = 0;
  // Argument k of position p is at [p * parameters + k]. Donated arguments are empty afterwards and can only be dropped. Errors after this
  // call arrive with the outputs and with `done`.
  virtual absl::StatusOr<Launch> Execute(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) = 0;
  // Returns the program as readable text. UNIMPLEMENTED if the runtime cannot.
  virtual absl::StatusOr<std::string> Text() = 0;
  // Returns the optimized program as a serialized xla.HloModuleProtoWithConfig. UNIMPLEMENTED if the runtime cannot.
  virtual absl::StatusOr<std::string> Module() = 0;
  virtual absl::StatusOr<std::map<std::string, double>> CostAnalysis() = 0;
  // Returns input for DeviceRuntime::Load of the same runtime version. UNIMPLEMENTED if the runtime cannot.
  virtual absl::StatusOr<std::string> Serialize() = 0;
};

// A device of any process of a program.
struct Position {
  std::string process;  // its RuntimeInfo::process_address; empty: this one
  int device = 0;       // its local ordinal there
};

struct CompileRequest {
  std::string format = "mlir";
  std::string program;
  std::string options;  // a serialized xla.CompileOptionsProto; its device assignment is replaced
  int num_replicas = 1;
  int num_partitions = 1;
  std::vector<int> devices;  // local ordinal of replica r, partition p at [r * num_partitions + p]
  bool host_callbacks = false;
  // For a program that spans processes: all its devices, ordered like `devices`, which then holds only this process's. Else empty.
  std::vector<Position> positions;
};

// A call from a running program to a function of the client.
struct HostCallOperand {
  DType dtype;
  Dims dims;
  Bytes data;
};
struct HostCallRequest {
  SessionId session;
  uint64_t callback = 0;
  int device = 0;
  std::vector<HostCallOperand> operands;
  std::vector<int64_t> result_bytes;  // sizes that the reply must have
};
using HostCallReply = absl::StatusOr<std::vector<Bytes>>;
// Called on a thread of the runtime; must not block. `done` may be called on any thread, exactly once.
using HostCallHandler = std::function<void(HostCallRequest request, std::function<void(HostCallReply)> done)>;

// Returns whether a launch has failed because this other process is gone. In every process of the launch the error's text says
// so: "process WORD of the computation is gone", where WORD is the first word of the process's address.
inline bool BlamesProcess(const absl::Status& error, absl::string_view address) {
  return !address.empty() && absl::StrContains(error.message(), absl::StrCat("process ", address.substr(0, address.find(' ')),
                                                                             " of the computation is gone"));
}

// A recording of a runtime's own events, from StartProfile on. Dropping it discards the events.
class RuntimeProfile {
 public:
  virtual ~RuntimeProfile() = default;
  // Ends the recording; returns the events as a serialized tensorflow.profiler.XSpace. RESOURCE_EXHAUSTED if that has more than `max_bytes`.
  // Called once, on any thread; may take seconds.
  virtual absl::StatusOr<std::string> Stop(size_t max_bytes) = 0;
};

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual const RuntimeInfo& info() const = 0;
  virtual const std::vector<DeviceInfo>& devices() const = 0;

  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> FromHost(HostArray array, int device, absl::string_view memory_kind) = 0;
  virtual absl::StatusOr<std::shared_ptr<LoadedProgram>> Compile(const CompileRequest& request) = 0;
  // Loads a program from LoadedProgram::Serialize, for the devices it was compiled for.
  virtual absl::StatusOr<std::shared_ptr<LoadedProgram>> Load(const std::string& serialized, const CompileRequest& request) = 0;
  virtual absl::StatusOr<MemoryUsage> Memory(int device) = 0;
  // Fails a launch that spans processes, because one of them will not complete it. Also valid before the launch starts here.
  virtual void AbortLaunch(int launch_id, const absl::Status& why) {}
  // Fails the launches that wait for another process, which is gone (BlamesProcess).
  virtual void LoseProcess(const std::string& process, const absl::Status& why) {}
  // Starts to record the runtime's own events. UNIMPLEMENTED if it cannot. A process has one such recording at a time.
  virtual absl::StatusOr<std::unique_ptr<RuntimeProfile>> StartProfile() {
    return absl::UnimplementedError("this device runtime records no profile");
  }
  // Sets the handler of host callbacks, replacing the previous one. Null: host callbacks are refused.
  virtual void SetHostCallHandler(HostCallHandler handler) = 0;
};

}  // namespace pw::device
