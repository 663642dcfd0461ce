// The device runtime: what a worker asks of the accelerators of its host.
//
// Implementations: pjrt/ (any PJRT plugin, by path) and simulated/ (arithmetic on host memory, for tests and the simulator).
// Devices are named by their local ordinal, the index in devices(). All work is asynchronous: a buffer exists, and can be passed
// on, before its contents do; errors travel with buffers and futures.
//
// Invariants:
//   DV-1  any thread may call anything; calls that only read are safe at the same time. Two executions that share a device run on
//         it in the order of the Execute calls, so the caller makes those calls from one thread
//   DV-2  a runtime outlives its programs and buffers
//   DV-3  dropping a buffer is always safe: its memory stays until the work that was enqueued on it is done
//   DV-4  host memory is dense and row-major unless strides are given, with one byte an element for types narrower than a byte
//   DV-5  no call blocks for device work, not even where a plugin's own does; Compile and Load block for the compiler
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/bytes.h"
#include "pathways/base/future.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/dtype.h"

namespace pw::device {

using buffers::DType;
using Dims = std::vector<int64_t>;

struct MemoryInfo {
  std::string kind;
  int kind_id = 0;
};

struct DeviceInfo {
  int runtime_id = 0;  // how programs name it
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
  std::string stablehlo_version;  // the newest it reads, "1.13.0"; empty if it does not say
  std::string xla_version;
  std::string process_address;  // how programs of other processes name this one; empty: programs cannot span processes
};

struct MemoryUsage {
  int64_t used_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t limit_bytes = 0;  // 0: not limited or not known
};

// Elements in host memory. `byte_strides` may be negative or in any order; `data` is then the smallest region they span.
struct HostArray {
  Bytes data;
  DType dtype = DType::kInvalid;
  Dims dims;
  std::optional<Dims> byte_strides;
  bool exclusive = false;  // nobody else reads `data`: the runtime may write into it once the buffer is donated
};

class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual DType dtype() const = 0;
  virtual const Dims& dims() const = 0;
  virtual int device() const = 0;
  virtual const std::string& memory_kind() const = 0;
  // Set once the contents exist, or with why they never will.
  virtual Future<Unit> Ready() = 0;
  // A dense row-major copy.
  virtual Future<Bytes> ToHost() = 0;
  // The same into memory of the caller's: `size` bytes at `out`, exactly what the contents take; `owner` keeps them.
  virtual Future<Unit> CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void> owner) = 0;
  // The contents where they lie, if that is host memory, dense and row-major; else UNIMPLEMENTED. REQUIRES: ready. While the view lives
  // the buffer must live too, and not be donated.
  virtual absl::StatusOr<Bytes> HostView() { return absl::UnimplementedError("the contents do not lie in host memory"); }
  // A copy in a memory of any device of this runtime. An empty kind means that device's default memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> CopyTo(int device, absl::string_view memory_kind) = 0;
};

// An argument or a result as one device sees it, and how the devices' parts make up the whole.
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
  std::vector<int32_t> donated_inputs;  // ascending; what the compiled code takes over unless told not to
  int64_t code_bytes = 0;
  std::string memory_stats;  // a serialized xla.CompiledMemoryStatsProto; empty: unknown
  std::vector<int> devices;  // local ordinal of each position
};

struct LaunchOptions {
  int launch_id = 0;  // no other launch's; of a program that spans processes the same in all of them
  std::vector<int64_t> non_donatable;
  SessionId session;  // whom host callbacks belong to
};

// When the devices of a launch were busy with it.
struct Interval {
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfinitePast();
};

struct Launch {
  std::vector<std::unique_ptr<DeviceBuffer>> outputs;  // result k of position p at [p * results + k]
  Future<Unit> done;                                   // on all devices
  std::shared_ptr<const Interval> busy;                // known once `done` is; null where the runtime cannot say
};

class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  virtual const ProgramInfo& info() const = 0;
  // Argument k of position p at [p * parameters + k]. Arguments that are donated are empty afterwards and can only be dropped.
  // What goes wrong later than this call comes with the outputs and with `done`.
  virtual absl::StatusOr<Launch> Execute(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) = 0;
  // What people read. UNIMPLEMENTED where the runtime cannot say.
  virtual absl::StatusOr<std::string> Text() = 0;
  virtual absl::StatusOr<std::map<std::string, double>> CostAnalysis() = 0;
  // For DeviceRuntime::Load of the same runtime version. UNIMPLEMENTED where the runtime cannot.
  virtual absl::StatusOr<std::string> Serialize() = 0;
};

// A device of any process of a computation.
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
  // A program that spans processes: all its devices, as `devices`, which then holds this process's in the same order. Else empty.
  std::vector<Position> positions;
};

// A running program calls a function of the client.
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
  std::vector<int64_t> result_bytes;  // what the reply must hold
};
using HostCallReply = absl::StatusOr<std::vector<Bytes>>;
// Called on a thread of the runtime; must not block. `done` may be called on any thread, once.
using HostCallHandler = std::function<void(HostCallRequest request, std::function<void(HostCallReply)> done)>;

class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual const RuntimeInfo& info() const = 0;
  virtual const std::vector<DeviceInfo>& devices() const = 0;

  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> FromHost(HostArray array, int device, absl::string_view memory_kind) = 0;
  virtual absl::StatusOr<std::shared_ptr<LoadedProgram>> Compile(const CompileRequest& request) = 0;
  // A program from LoadedProgram::Serialize, for the devices it was compiled for.
  virtual absl::StatusOr<std::shared_ptr<LoadedProgram>> Load(const std::string& serialized, const CompileRequest& request) = 0;
  virtual absl::StatusOr<MemoryUsage> Memory(int device) = 0;
  // A launch that spans processes will not be completed by one of them: here it fails instead of waiting, also if it is still to come.
  virtual void AbortLaunch(int launch_id, const absl::Status& why) {}
  // Another process is gone: what waits for it fails.
  virtual void LoseProcess(const std::string& process, const absl::Status& why) {}
  // Who answers host callbacks; replaces the previous handler. A null one refuses them.
  virtual void SetHostCallHandler(HostCallHandler handler) = 0;
};

}  // namespace pw::device
