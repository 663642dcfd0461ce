// Session: everything one connected client owns, and every operation it can ask for. The front end turns wire messages into these calls.
//
// Handles. A client names its objects (arrays, host buffers, futures, executables) by 64-bit handles. It picks the handles of results itself, below
// kFirstServerHandle; where a request leaves the choice to us (NewHandle) we pick from above it. 0 names nothing. A handle stays known until it is
// destructed, also when its object is an error or deleted.
//
// Order. All methods run on the controller's strand, and take effect in call order; nothing here blocks. Array operations return at
// once with arrays that are pending.
//
// Errors are values. When an array operation fails, its result handles hold the error (so later uses report it) and the same error is returned, for
// the answer on the wire. An operation on an errored input succeeds and yields results with that error.
//
// A callback is run exactly once, on the strand, never inside the call; after the session has ended with CANCELLED.
//
// Invariants:
//   SE-1  a session's end frees all it owns, on every host
//   SE-2  no method trusts its arguments: unknown handles, wrong counts, foreign devices and overflowing sizes give a Status
//   SE-3  one controller record per array, however many shards
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/bytes.h"
#include "pathways/base/executor.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/remap_plan.h"
#include "pathways/gang/share.h"
#include "pathways/resource/placement.h"
#include "pathways/session/lane_routes.h"
#include "pathways/session/reports.h"

namespace pw::session {

using Handle = uint64_t;
inline constexpr Handle kFirstServerHandle = uint64_t{1} << 62;

using StatusCallback = absl::AnyInvocable<void(absl::Status) &&>;
template <class T>
using ResultCallback = absl::AnyInvocable<void(absl::StatusOr<T>) &&>;

// What becomes of the inputs of a copying operation.
enum class CopySemantics { kAlwaysCopy, kReuseInput, kDonateInput };

// Bytes in host memory and how elements lie in them. No strides: dense, row-major.
struct HostLayout {
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims dims;
  std::optional<buffers::Dims> byte_strides;
};

// One host buffer that feeds the given shards of an array.
struct HostShard {
  Handle host_buffer = 0;
  HostLayout layout;
  std::vector<int32_t> shards;
  bool by_lane = false;  // each host concerned gets the bytes from the client itself (lane_routes.h)
};

// How an executable sees one argument or result.
struct ValueInfo {
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims shard_dims;
  std::string op_sharding;  // a serialized xla.OpSharding; empty: unknown
  std::string layout;       // a serialized xla.LayoutProto; empty: unknown
  std::string memory_kind;
};

// Marks, as a payload, the error of a Compile whose program the hosts did not read because it is of a newer StableHLO than
// ClusterInfo::stablehlo_version. The same program written for that version may compile.
inline constexpr char kNewerThanRuntime[] = "pathways/newer-than-runtime";

struct CompileRequest {
  std::string format;  // "mlir"
  Bytes program;
  bool translated = false;  // `program` is what the client's was translated to: counted in the status report
  std::string options;  // serialized xla.CompileOptionsProto without its device assignment
  int num_replicas = 1;
  int num_partitions = 1;
  std::vector<DeviceId> devices;  // replica-major; empty: the first num_replicas * num_partitions devices
};

struct ExecutableInfo {
  Handle handle = 0;
  std::string name;
  std::string fingerprint;
  std::vector<DeviceId> devices;
  std::vector<ValueInfo> parameters;
  std::vector<ValueInfo> outputs;
  std::vector<buffers::ArraySpec> output_specs;  // whole arrays, as Execute will make them
  std::vector<int32_t> donated_inputs;
  std::string memory_stats;  // a serialized xla.CompiledMemoryStatsProto; empty: unknown
  int64_t code_bytes = 0;
};

struct ExecuteRequest {
  Handle executable = 0;
  std::vector<Handle> args;
  std::vector<Handle> results;  // one per output, or empty: then we pick (the first call of a client)
  Handle status = 0;            // where the result of the run is kept for FetchExecuteResult; 0: nowhere
  int32_t launch_id = 0;
  std::vector<int32_t> non_donatable;
  std::vector<DeviceId> devices;  // for portable executables; empty: those it was compiled for
};

struct ExecuteReply {
  std::vector<Handle> results;
  std::shared_ptr<const std::vector<buffers::ArraySpec>> specs;
};

struct RunResult {
  std::map<std::string, double> device_microseconds;  // by platform name
};

struct CostAnalysis {
  std::map<std::string, double> numbers;
};

class Session {
 public:
  virtual ~Session() = default;  // ends the session (SE-1)

  virtual SessionId id() const = 0;
  virtual Handle NewHandle() = 0;
  // While it is, nothing may be asked of it; `resumed` runs, once, when it is not any more. Dropped with the session.
  virtual bool suspended() const { return false; }
  virtual void WhenResumed(absl::AnyInvocable<void() &&> resumed) { std::move(resumed)(); }
  // Null: all bytes of its arrays go through it.
  virtual LaneRoutes* lane_routes() { return nullptr; }

  // --- host buffers: filled by the client before or after the request that names them, or by CopyToHostBuffer -----------------------
  // One that is about to be received. `admitted` runs when there is room (SessionLimits::staged_bytes): OK, then one of the next three
  // follows. ALREADY_EXISTS if the handle holds one; RESOURCE_EXHAUSTED if it is over the limit all by itself.
  virtual void AnnounceHostBuffer(Handle handle, int64_t bytes, StatusCallback admitted) = 0;
  virtual void ForgetHostBuffer(Handle handle) = 0;
  // Instead of StoreHostBuffer: arrays that the buffer was meant for become this error.
  virtual void FailHostBuffer(Handle handle, absl::Status error) = 0;
  // ALREADY_EXISTS if the handle holds one; RESOURCE_EXHAUSTED over the limit if it was not announced.
  virtual absl::Status StoreHostBuffer(Handle handle, Bytes data) = 0;
  // Waits for a buffer that a CopyToHostBuffer under way will fill; NOT_FOUND if nothing will.
  virtual void LookupHostBuffer(Handle handle, ResultCallback<Bytes> done) = 0;
  virtual absl::Status DeleteHostBuffer(Handle handle) = 0;

  // --- arrays ------------------------------------------------------------------------------------------------------------------------
  // The array stays pending until all its host buffers have arrived and reached their devices. Consumes the host buffers.
  virtual absl::Status MakeArray(Handle result, const buffers::ArraySpec& spec, std::vector<HostShard> sources) = 0;
  virtual absl::Status MakeErrorArray(Handle result, const buffers::ArraySpec& spec, absl::Status error) = 0;
  virtual absl::Status Assemble(Handle result, const buffers::ArraySpec& spec, absl::Span<const Handle> singles,
                                CopySemantics semantics) = 0;
  virtual absl::Status Disassemble(absl::Span<const Handle> results, Handle array, CopySemantics semantics) = 0;
  virtual absl::Status FullyReplicatedShard(Handle result, Handle array, CopySemantics semantics) = 0;
  // To other devices (nullopt: the same) and another memory (nullopt: the same, "": the default); shard i goes to devices[i].
  virtual absl::Status Copy(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                            std::optional<std::vector<DeviceId>> devices, std::optional<std::string> memory_kind,
                            CopySemantics semantics) = 0;
  virtual absl::Status Reshard(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                               absl::Span<const buffers::ArraySpec> specs, CopySemantics semantics) = 0;
  virtual absl::Status Remap(absl::Span<const Handle> results, absl::Span<const Handle> arrays, const buffers::RemapPlan& plan,
                             absl::Span<const buffers::ArraySpec> specs, CopySemantics semantics) = 0;
  virtual absl::Status Bitcast(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                               absl::Span<const buffers::ArraySpec> specs, CopySemantics semantics) = 0;
  // OK once all are ready, else the first error (in the order of `arrays`).
  virtual void WhenReady(absl::Span<const Handle> arrays, StatusCallback done) = 0;
  // Fills `host_buffer` with a single-device or fully replicated array (shard 0).
  virtual void CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims> byte_strides,
                                StatusCallback done) = 0;
  // The data goes, the handles stay. Unknown handles are an error after all known ones have been deleted.
  virtual absl::Status Delete(absl::Span<const Handle> arrays) = 0;
  virtual absl::Status Destruct(absl::Span<const Handle> arrays) = 0;
  virtual absl::StatusOr<bool> IsDeleted(Handle array) = 0;
  virtual absl::StatusOr<buffers::ArraySpec> Spec(Handle array) = 0;

  // --- executables -----------------------------------------------------------------------------------------------------------------------
  virtual void Compile(CompileRequest request, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) = 0;
  // A program of many nodes (proto/pathways/v1/program.proto); its handle is used as that of an executable.
  virtual void CompileProgram(Bytes program, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) = 0;
  virtual absl::StatusOr<std::shared_ptr<const ExecutableInfo>> Info(Handle executable) = 0;
  virtual absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request) = 0;
  // Consumes the status handle of an Execute, once that run is complete.
  virtual void FetchExecuteResult(Handle status, ResultCallback<RunResult> done) = 0;
  // When all runs so far of programs with effects (Program.effects) have ended; the first failure among them that has not been told here.
  virtual void AwaitEffects(StatusCallback done) = 0;
  virtual void GetCostAnalysis(Handle executable, ResultCallback<CostAnalysis> done) = 0;
  virtual void GetProgramText(Handle executable, ResultCallback<std::string> done) = 0;
  virtual absl::Status DestructExecutable(Handle executable) = 0;
};

// A Python function of the client that a running computation calls (jax.pure_callback and its kin).
struct HostCall {
  uint64_t callback = 0;
  std::vector<HostLayout> operands;
  std::vector<Bytes> data;
};

// The client's companion channel, if it has one, answers host calls. Implemented by the front end; strand-confined.
class HostCallHandler {
 public:
  virtual ~HostCallHandler() = default;
  virtual void OnHostCall(HostCall call, ResultCallback<std::vector<Bytes>> done) = 0;
};

// One accelerator as clients see it.
struct DeviceInfo {
  DeviceId id;
  int32_t local_device_id = 0;
  int32_t local_hardware_id = -1;
  std::string platform_name;
  std::string kind;
  std::string debug_string;
  std::string to_string;
  std::vector<MemoryId> memories;  // the first is the default
  std::map<std::string, int64_t> int_attributes;
  std::map<std::string, std::string> string_attributes;
  std::map<std::string, std::vector<int64_t>> list_attributes;
};

struct MemoryInfo {
  MemoryId id;
  std::string kind;
  int32_t kind_id = 0;
  std::vector<DeviceId> devices;
  std::string debug_string;
  std::string to_string;
};

struct ClusterInfo {
  std::string platform_name;  // of the workers: decides the client's lowering rules
  std::string platform_version;
  std::string stablehlo_version;
  std::string xla_version;
  std::vector<DeviceInfo> devices;  // by id
  std::vector<MemoryInfo> memories;
};

// The virtual devices that a client can have slices on: announced when it connects, each bound to a physical device when a slice gets it.
struct SpareDevices {
  std::vector<DeviceInfo> devices;
  std::vector<MemoryInfo> memories;
};

// A session that is to be opened.
struct NewSession {
  std::string description;  // for people: "jax client at 127.0.0.1:3312"
  gang::ShareChange share;  // of the devices' time, where it is not the usual one
  bool observer = false;    // it asks what operators ask, and is not counted among the clients
};

// What a front door needs of the controller, which may be in this process or elsewhere. Posts to its strand; any thread may. Everything else
// on the strand. A callback is run exactly once, on the strand, never inside the call.
class Cluster : public Executor {
 public:
  // As far as this end knows it. REQUIRES: a session has been opened.
  virtual std::shared_ptr<const ClusterInfo> info() const = 0;
  // UNAVAILABLE before the cluster has formed. INVALID_ARGUMENT: a share that there cannot be.
  virtual void OpenSession(NewSession session, ResultCallback<std::shared_ptr<Session>> done) = 0;
  virtual void SetHostCallHandler(SessionId session, std::shared_ptr<HostCallHandler> handler) = 0;
  // What the client is entitled to of the devices' time, from now on. Answers the whole of it. INVALID_ARGUMENT; NOT_FOUND lists the
  // clients that there are.
  virtual void ChangeShare(SessionId session, const gang::ShareChange& change, ResultCallback<gang::Share> done) = 0;
  // --- virtual slices; they end with their session ---
  // Constant for the life of the session.
  virtual std::shared_ptr<const SpareDevices> Spares(SessionId session) = 0;
  // Placed, waiting (AwaitSlice) or refused at once. INVALID_ARGUMENT for a request that makes no sense.
  virtual void AddSlice(SessionId session, const resource::SliceRequest& request, ResultCallback<SliceState> done) = 0;
  // Answers when the slice does not wait any more, at the latest after so long. NOT_FOUND if the session has no such slice.
  virtual void AwaitSlice(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done) = 0;
  // It waits no more, or lives no more: then arrays on its devices become errors and their memory is freed.
  virtual void ReleaseSlice(SessionId session, SliceId slice, StatusCallback done) = 0;
  // Saves the client's arrays in the memory of their hosts and gives the devices of its slices to others; its requests wait until it is
  // resumed: then it has devices that satisfy the same requests, and all that it had is there. FAILED_PRECONDITION if it is so already,
  // or there is no room to resume it.
  virtual void SuspendClient(SessionId session, bool resume, ResultCallback<SuspendReport> done) = 0;
  // Moves the slices on a host elsewhere, with all that is on them, and places none there; `undo`: it takes slices again. NOT_FOUND lists
  // the hosts that there are.
  virtual void DrainHost(const std::string& host, bool undo, ResultCallback<DrainReport> done) = 0;
  // Islands, hosts, devices, clients, memory as JSON text (schema: docs/status.md), for `pathways status`.
  virtual void GetStatus(ResultCallback<std::string> done) = 0;
  // Records what the whole cluster does for so long. FAILED_PRECONDITION while another recording runs.
  virtual void RecordTrace(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) = 0;
};

}  // namespace pw::session
