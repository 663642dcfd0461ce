// Session: everything that one connected client owns, and every operation that the client can request. Front ends turn wire
// messages into calls of Session. The implementation is in the controller, or sends the calls there (client/remote_session.h).
//
// Handles. A client names its objects (arrays, host buffers, futures, executables) by 64-bit handles. It picks the handles of results
// itself, below kFirstServerHandle. Where a request leaves the choice to the session, NewHandle returns one from above it. 0 names nothing.
// A handle stays valid until it is destructed, even when its object is an error or deleted.
//
// Order. All methods run on the strand of the session's Cluster and take effect in call order. None blocks. Array operations
// return at once; their result arrays are pending.
//
// Errors are values. When an array operation fails, its result handles hold the error, so later uses report it. The method returns the same
// error, for the answer on the wire. An operation on an errored input succeeds; its results hold the input's error.
//
// A callback runs exactly once, on the strand, never inside the call. If the session ends first, it gets the reason or CANCELLED.
//
// Invariants:
//   SE-1  the end of a session frees all it owns, on every host
//   SE-2  no method trusts its arguments: unknown handles, wrong counts, foreign devices and overflowing sizes yield a Status
//   SE-3  one controller record per array, for any number of shards
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
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/base/threads/executor.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/remap_plan.h"
#include "pathways/gang/share.h"
#include "pathways/resource/placement.h"
#include "pathways/session/array_files.h"
#include "pathways/session/basics.h"
#include "pathways/session/host_calls.h"
#include "pathways/session/lane_routes.h"
#include "pathways/session/new_session.h"
#include "pathways/session/profiles.h"
#include "pathways/session/reports.h"
#include "pathways/session/restoration.h"

namespace pw::session {

// A host buffer that is the source of the given shards of an array.
struct HostShard {
  Handle host_buffer = 0;
  HostLayout layout;
  std::vector<int32_t> shards;
  bool by_lane = false;  // each host gets the bytes directly from the client (lane_routes.h)
};

// Type, sharding and layout of an executable's argument or result.
struct ValueInfo {
  buffers::DType dtype = buffers::DType::kInvalid;
  buffers::Dims shard_dims;
  std::string op_sharding;  // a serialized xla.OpSharding; empty: unknown
  std::string layout;       // a serialized xla.LayoutProto; empty: unknown
  std::string memory_kind;
};

// Payload URL of a Compile error that means: the program uses a newer StableHLO than the hosts read (ClusterInfo::stablehlo_version). The
// same program, written for that version, may compile.
inline constexpr char kNewerThanRuntime[] = "pathways/newer-than-runtime";

struct CompileRequest {
  std::string format;  // "mlir", or kHostFunctionFormat (host_function.h), which uses only the program and the devices
  Bytes program;
  bool translated = false;  // `program` is a translation of the client's program; counted in the status report
  std::string options;      // serialized xla.CompileOptionsProto without its device assignment
  int num_replicas = 1;
  int num_partitions = 1;
  std::vector<DeviceId> devices;  // replica-major; empty: the first that fit, or those that a Python function names itself
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
  std::vector<Handle> results;  // one per output, or empty: the session picks them (a client's first call)
  Handle status = 0;            // names the run's result for FetchExecuteResult; 0: the result is not kept
  int32_t launch_id = 0;
  std::vector<int32_t> non_donatable;
  std::vector<DeviceId> devices;  // for portable executables; empty: the devices it was compiled for
  uint64_t stream = 0;            // of a Python function (host_function.h): calls of one stream run in order on each host
};

struct ExecuteReply {
  std::vector<Handle> results;
  std::shared_ptr<const std::vector<buffers::ArraySpec>> specs;
};

// A question about published arrays (session.proto, PublishedQuestion).
struct PublishedQuestion {
  enum class What { kClaim, kAwait, kWithdraw };
  What what = What::kAwait;
  std::string name;
  uint64_t above = 0;                           // kAwait: the version must be newer than this one
  absl::Duration limit = absl::ZeroDuration();  // kAwait
};

class Session {
 public:
  virtual ~Session() = default;  // ends the session (SE-1)

  virtual SessionId id() const = 0;
  virtual Handle NewHandle() = 0;
  // The calls from BeginRequest to EndRequest carry out the client's request of this number (session.proto): what it makes on the hosts is
  // named by it. Other calls are those of a client in the controller's process, which numbers nothing. REQUIRES: number > 0.
  virtual void BeginRequest(uint64_t number) {}
  virtual void EndRequest() {}
  // Holds the request: its client does not know the answer yet, so it is not settled (worker.proto). Has no effect once it is settled.
  virtual std::shared_ptr<void> HoldRequest(uint64_t number) { return nullptr; }
  // Whether the session is suspended: then no other method may be called. WhenResumed runs `resumed` once it is not, or drops it at its end.
  virtual bool suspended() const { return false; }
  virtual void WhenResumed(absl::AnyInvocable<void() &&> resumed) { std::move(resumed)(); }
  // Returns the bytes of arrays that have passed through this process, to and from its client. 0: they are not counted.
  virtual int64_t array_bytes() const { return 0; }
  // Returns null if the session has no lanes: all bytes of its arrays then go through the session itself.
  virtual LaneRoutes* lane_routes() { return nullptr; }
  // Returns null if no other controller can restore the session.
  virtual Restoration* restoration() { return nullptr; }

  // --- host buffers: filled by the client before or after the request that names them, or by CopyToHostBuffer -----------------------
  // Announces a host buffer. `admitted` gets OK when there is room (SessionLimits::staged_bytes; client/host_buffers.h); then
  // one of the next three methods must follow. ALREADY_EXISTS: handle in use. RESOURCE_EXHAUSTED: larger than the limit.
  virtual void AnnounceHostBuffer(Handle handle, int64_t bytes, StatusCallback admitted) = 0;
  virtual void ForgetHostBuffer(Handle handle) = 0;
  // Replaces StoreHostBuffer: arrays that use the buffer become this error.
  virtual void FailHostBuffer(Handle handle, absl::Status error) = 0;
  // ALREADY_EXISTS if the handle is in use; RESOURCE_EXHAUSTED if the buffer was not announced and exceeds the limit.
  virtual absl::Status StoreHostBuffer(Handle handle, Bytes data) = 0;
  // Gets the bytes. Waits if a running CopyToHostBuffer will fill the buffer; NOT_FOUND if none will.
  virtual void LookupHostBuffer(Handle handle, ResultCallback<Bytes> done) = 0;
  virtual absl::Status DeleteHostBuffer(Handle handle) = 0;

  // --- arrays ------------------------------------------------------------------------------------------------------------------------
  // Makes an array of host buffers, and consumes them. It is pending until all of them have arrived and reached their devices.
  virtual absl::Status MakeArray(Handle result, const buffers::ArraySpec& spec, std::vector<HostShard> sources) = 0;
  virtual absl::Status MakeErrorArray(Handle result, const buffers::ArraySpec& spec, absl::Status error) = 0;
  // Makes one array of arrays on single devices, in shard order. Disassemble is the reverse.
  virtual absl::Status Assemble(Handle result, const buffers::ArraySpec& spec, absl::Span<const Handle> singles,
                                CopySemantics semantics) = 0;
  virtual absl::Status Disassemble(absl::Span<const Handle> results, Handle array, CopySemantics semantics) = 0;
  virtual absl::Status FullyReplicatedShard(Handle result, Handle array, CopySemantics semantics) = 0;
  // Copies arrays to other devices (nullopt: the same) and memory (nullopt: the same; "": the default). Shard i goes to devices[i].
  virtual absl::Status Copy(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                            std::optional<std::vector<DeviceId>> devices, std::optional<std::string> memory_kind,
                            CopySemantics semantics) = 0;
  virtual absl::Status Reshard(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                               absl::Span<const buffers::ArraySpec> specs, CopySemantics semantics) = 0;
  // Regroups the shards of arrays, without moving data.
  virtual absl::Status Remap(absl::Span<const Handle> results, absl::Span<const Handle> arrays, const buffers::RemapPlan& plan,
                             absl::Span<const buffers::ArraySpec> specs, CopySemantics semantics) = 0;
  // Gives the bytes of arrays another element type and shape.
  virtual absl::Status Bitcast(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                               absl::Span<const buffers::ArraySpec> specs, CopySemantics semantics) = 0;
  // Calls `done` with OK once all arrays are ready, or with the first error in the order of `arrays`.
  virtual void WhenReady(absl::Span<const Handle> arrays, StatusCallback done) = 0;
  // Fills `host_buffer` with a single-device or fully replicated array (shard 0).
  virtual void CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims> byte_strides,
                                StatusCallback done) = 0;
  // Writes the arrays to files of their hosts, all or none. Calls `done` when they are on the disk.
  virtual void SaveArrays(SaveRequest request, StatusCallback done) = 0;
  // Makes arrays from files of their hosts. Calls `done` when all are settled, with the first error.
  virtual void LoadArrays(LoadRequest request, StatusCallback done) = 0;
  // Frees the data; the handles stay valid. Deletes all known arrays, then returns an error if a handle is unknown.
  virtual absl::Status Delete(absl::Span<const Handle> arrays) = 0;
  virtual absl::Status Destruct(absl::Span<const Handle> arrays) = 0;
  virtual absl::StatusOr<bool> IsDeleted(Handle array) = 0;
  virtual absl::StatusOr<buffers::ArraySpec> Spec(Handle array) = 0;

  // --- executables -----------------------------------------------------------------------------------------------------------------------
  virtual void Compile(CompileRequest request, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) = 0;
  // Compiles a program of many nodes (proto/pathways/v1/program.proto). Its handle is used like that of an executable.
  virtual void CompileProgram(Bytes program, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) = 0;
  virtual absl::StatusOr<std::shared_ptr<const ExecutableInfo>> Info(Handle executable) = 0;
  virtual absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request) = 0;
  // Waits until the run of an Execute is complete. Consumes its status handle.
  virtual void FetchExecuteResult(Handle status, ResultCallback<RunResult> done) = 0;
  // Waits for the end of all runs so far of programs with effects (Program.effects). Gets the first unreported failure.
  virtual void AwaitEffects(StatusCallback done) = 0;
  virtual void GetCostAnalysis(Handle executable, ResultCallback<CostAnalysis> done) = 0;
  virtual void GetProgramText(Handle executable, ResultCallback<std::string> done) = 0;
  // Gets the optimized program, a serialized xla.HloModuleProtoWithConfig.
  virtual void GetProgramModule(Handle executable, ResultCallback<std::string> done) = 0;
  virtual absl::Status DestructExecutable(Handle executable) = 0;
  // Asks about published arrays; answers JSON.
  virtual void AskPublished(const PublishedQuestion& question, ResultCallback<std::string> done) = 0;
};

// A device, as clients see it.
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

// Devices that a client can use later: virtual devices, which slices bind to physical ones, and the devices of empty seats. The
// client learns of them when it connects.
struct SpareDevices {
  std::vector<DeviceInfo> devices;
  std::vector<MemoryInfo> memories;
};

// The controller as front ends see it, in this process or remote. Post may be called on any thread; all other methods on the strand. A
// callback runs exactly once, on the strand, never inside the call.
class Cluster : public Executor, public Profiles {
 public:
  // Returns the latest description of the cluster known here. REQUIRES: a session has been opened.
  virtual std::shared_ptr<const ClusterInfo> info() const = 0;
  // UNAVAILABLE before the cluster has formed. INVALID_ARGUMENT if the share is not valid.
  virtual void OpenSession(NewSession session, ResultCallback<std::shared_ptr<Session>> done) = 0;
  // Returns OK if a session of the controller before can be opened (NewSession::restored). RESOURCE_EXHAUSTED: not all hosts are back yet.
  virtual absl::Status CanRestore(SessionId session) { return absl::UnimplementedError("this cluster restores no sessions"); }
  virtual void SetHostCallHandler(SessionId session, std::shared_ptr<HostCallHandler> handler) = 0;
  // Notes for the status report that the session's client has lost its connection, or is back.
  virtual void SetAway(SessionId session, bool away) {}
  // Changes the client's share of the devices' time, from now on. Answers the complete share. INVALID_ARGUMENT; NOT_FOUND lists the existing clients.
  virtual void ChangeShare(SessionId session, const gang::ShareChange& change, ResultCallback<gang::Share> done) = 0;
  // Returns PERMISSION_DENIED if this share is above the quota of the session's user.
  virtual absl::Status CheckQuota(SessionId session, const gang::ShareChange& change) { return absl::OkStatus(); }
  // Applies changed quotas to sessions that wait.
  virtual void OnQuotasChanged() {}
  // Returns the use of users that have sessions or have computed today.
  virtual std::vector<UserUse> Use() { return {}; }
  // --- virtual slices; they end with their session ---
  // Returns the spare devices as of now. A connected client keeps those that it was told.
  virtual std::shared_ptr<const SpareDevices> Spares(SessionId session) = 0;
  // Answers at once: the slice is placed, waiting (see AwaitSlice) or refused. INVALID_ARGUMENT for a malformed request.
  virtual void AddSlice(SessionId session, const resource::SliceRequest& request, ResultCallback<SliceState> done) = 0;
  // Answers when the slice no longer waits, or after `limit`. NOT_FOUND if the session has no such slice.
  virtual void AwaitSlice(SessionId session, SliceId slice, absl::Duration limit, ResultCallback<SliceState> done) = 0;
  // Cancels a waiting slice or ends a placed one; arrays on the slice's devices become errors and their memory is freed.
  virtual void ReleaseSlice(SessionId session, SliceId slice, StatusCallback done) = 0;
  // Makes the virtual devices and slices of a session of the controller before, which has none yet (restored_slices.h).
  virtual absl::Status RestoreSlices(SessionId, const RestoredSlices&) { return absl::UnimplementedError("not supported"); }
  // Suspend: saves the client's arrays in host memory and gives the devices of its slices to others; the client's requests wait. Resume:
  // gives its slices devices that satisfy the same requests and restores the arrays. FAILED_PRECONDITION if already in that state, or if
  // there is no room to resume.
  virtual void SuspendClient(SessionId session, bool resume, ResultCallback<SuspendReport> done) = 0;
  // Moves all slices on a host elsewhere, with their arrays, and places no new ones there. `undo`: the host takes slices again. NOT_FOUND
  // lists the existing hosts.
  virtual void DrainHost(const std::string& host, bool undo, ResultCallback<DrainReport> done) = 0;
  // Answers the state of islands, hosts, devices, clients and memory as JSON text (schema: docs/status.md), for `pathways status`.
  virtual void GetStatus(ResultCallback<std::string> done) = 0;
  virtual void GetStatusFor(const std::string& user, ResultCallback<std::string> done) = 0;  // this user's clients only
  // Records the activity of the whole cluster for this duration. FAILED_PRECONDITION while another recording runs.
  virtual void RecordTrace(absl::Duration duration, size_t max_events, ResultCallback<ClusterTrace> done) = 0;
};

}  // namespace pw::session
