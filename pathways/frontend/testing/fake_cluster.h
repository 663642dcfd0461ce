// FakeCluster: a cluster without workers, for tests of the front end. Sessions keep arrays as bytes; programs copy their first argument to
// their output. A program of a newer StableHLO version than the cluster's is refused.
//
// FakeCluster queues posted tasks; a test runs them by RunAll (one thread), or passes an executor that runs them.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/threads/executor.h"
#include "pathways/controller/session.h"

namespace pw::frontend::testing {

class FakeCluster;

class FakeSession final : public controller::Session {
 public:
  using Handle = controller::Handle;

  FakeSession(FakeCluster* cluster, SessionId id) : cluster_(cluster), id_(id) {}
  ~FakeSession() override;

  SessionId id() const override { return id_; }
  Handle NewHandle() override { return next_handle_++; }
  bool suspended() const override { return pause; }
  void WhenResumed(absl::AnyInvocable<void() &&> resumed) override { when_resumed.push_back(std::move(resumed)); }
  void Resume() {
    pause = false;
    for (auto& resumed : std::exchange(when_resumed, {})) std::move(resumed)();
  }

  void AnnounceHostBuffer(Handle handle, int64_t bytes, controller::StatusCallback admitted) override;
  void ForgetHostBuffer(Handle handle) override { announced.erase(handle); }
  void FailHostBuffer(Handle handle, absl::Status error) override { failed[handle] = std::move(error); }
  absl::Status StoreHostBuffer(Handle handle, Bytes data) override;
  void LookupHostBuffer(Handle handle, controller::ResultCallback<Bytes> done) override;
  absl::Status DeleteHostBuffer(Handle handle) override;

  absl::Status MakeArray(Handle result, const buffers::ArraySpec& spec, std::vector<controller::HostShard> sources) override;
  absl::Status MakeErrorArray(Handle result, const buffers::ArraySpec& spec, absl::Status error) override;
  absl::Status Assemble(Handle result, const buffers::ArraySpec& spec, absl::Span<const Handle> singles,
                        controller::CopySemantics semantics) override;
  absl::Status Disassemble(absl::Span<const Handle> results, Handle array, controller::CopySemantics semantics) override;
  absl::Status FullyReplicatedShard(Handle result, Handle array, controller::CopySemantics semantics) override;
  absl::Status Copy(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                    std::optional<std::vector<DeviceId>> devices, std::optional<std::string> memory_kind,
                    controller::CopySemantics semantics) override;
  absl::Status Reshard(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                       absl::Span<const buffers::ArraySpec> specs, controller::CopySemantics semantics) override;
  absl::Status Remap(absl::Span<const Handle> results, absl::Span<const Handle> arrays, const buffers::RemapPlan& plan,
                     absl::Span<const buffers::ArraySpec> specs, controller::CopySemantics semantics) override;
  absl::Status Bitcast(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                       absl::Span<const buffers::ArraySpec> specs, controller::CopySemantics semantics) override;
  void WhenReady(absl::Span<const Handle> arrays, controller::StatusCallback done) override;
  void CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims> byte_strides,
                        controller::StatusCallback done) override;
  void SaveArrays(session::SaveRequest request, controller::StatusCallback done) override;
  void LoadArrays(session::LoadRequest request, controller::StatusCallback done) override;
  absl::Status Delete(absl::Span<const Handle> arrays) override;
  absl::Status Destruct(absl::Span<const Handle> arrays) override;
  absl::StatusOr<bool> IsDeleted(Handle array) override;
  absl::StatusOr<buffers::ArraySpec> Spec(Handle array) override;

  void Compile(controller::CompileRequest request,
               controller::ResultCallback<std::shared_ptr<const controller::ExecutableInfo>> done) override;
  void AwaitEffects(controller::StatusCallback done) override;
  void AskPublished(const session::PublishedQuestion& question, controller::ResultCallback<std::string> done) override;
  void CompileProgram(Bytes program, controller::ResultCallback<std::shared_ptr<const controller::ExecutableInfo>> done) override;
  absl::StatusOr<std::shared_ptr<const controller::ExecutableInfo>> Info(Handle executable) override;
  absl::StatusOr<controller::ExecuteReply> Execute(const controller::ExecuteRequest& request) override;
  void FetchExecuteResult(Handle status, controller::ResultCallback<controller::RunResult> done) override;
  void GetCostAnalysis(Handle executable, controller::ResultCallback<controller::CostAnalysis> done) override;
  void GetProgramText(Handle executable, controller::ResultCallback<std::string> done) override;
  void GetProgramModule(Handle, controller::ResultCallback<std::string> done) override {
    std::move(done)(absl::UnimplementedError("no module"));
  }
  absl::Status DestructExecutable(Handle executable) override;

  // The contents of an array, shared with arrays made from the array.
  struct Contents {
    Bytes bytes;
    bool there = true;
    std::vector<absl::AnyInvocable<void() &&>> waiters;
  };
  struct Array {
    buffers::ArraySpec spec;
    absl::Status error;
    std::shared_ptr<Contents> data = std::make_shared<Contents>();
    std::vector<controller::HostShard> sources;
    bool deleted = false;
  };
  std::map<Handle, Array> arrays;
  std::map<std::string, Array> saved;  // by LOCATION/NAME
  absl::Status save_error;             // of every save
  std::map<Handle, Bytes> host_buffers;
  std::map<Handle, int64_t> announced;  // and admitted
  int64_t staged_limit = 1000 << 20;    // for one buffer
  std::map<Handle, absl::Status> failed;
  bool full = false;  // no announcement is admitted
  std::map<Handle, controller::StatusCallback> waiting;
  std::map<Handle, std::shared_ptr<const controller::ExecutableInfo>> executables;
  std::map<Handle, absl::Status> runs;
  bool pause = false;  // suspended
  std::vector<absl::AnyInvocable<void() &&>> when_resumed;
  controller::CompileRequest last_compile;
  int compilations = 0;
  controller::ExecuteRequest last_execute;
  int copies_to_host = 0;
  std::optional<std::vector<DeviceId>> last_copy_devices;
  std::optional<std::string> last_copy_memory_kind;
  buffers::RemapPlan last_remap;

 private:
  // Runs `then` once the contents of all arrays that these handles name exist, never inside the call.
  void AfterAll(absl::Span<const Handle> handles, absl::AnyInvocable<void() &&> then);
  absl::StatusOr<Array*> Find(Handle handle);
  absl::Status Add(Handle handle, Array array);
  // Adds `results` as copies of `arrays`, with `specs` if given. An error is bound to all results.
  absl::Status Derive(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                      absl::Span<const buffers::ArraySpec> specs);
  absl::StatusOr<std::vector<Array>> DeriveAll(absl::Span<const Handle> results, absl::Span<const Handle> arrays,
                                               absl::Span<const buffers::ArraySpec> specs);

  FakeCluster* const cluster_;
  const SessionId id_;
  Handle next_handle_ = controller::kFirstServerHandle;
};

class FakeCluster final : public controller::Cluster {
 public:
  // `executor` (one thread, or a strand) may be null: then RunAll runs posted tasks.
  explicit FakeCluster(Executor* executor = nullptr, int devices = 4);

  void Post(absl::AnyInvocable<void() &&> task) override;
  void RunAll();
  std::shared_ptr<const controller::ClusterInfo> info() const override { return info_; }
  void OpenSession(session::NewSession session, controller::ResultCallback<std::shared_ptr<controller::Session>> done) override;
  void SetHostCallHandler(SessionId session, std::shared_ptr<controller::HostCallHandler> handler) override;
  void ChangeShare(SessionId session, const gang::ShareChange& change, controller::ResultCallback<gang::Share> done) override;
  std::shared_ptr<const controller::SpareDevices> Spares(SessionId session) override;
  void AddSlice(SessionId session, const resource::SliceRequest& request,
                controller::ResultCallback<controller::SliceState> done) override;
  void AwaitSlice(SessionId session, SliceId slice, absl::Duration limit,
                  controller::ResultCallback<controller::SliceState> done) override;
  void ReleaseSlice(SessionId session, SliceId slice, controller::StatusCallback done) override;
  void SuspendClient(SessionId session, bool resume, controller::ResultCallback<controller::SuspendReport> done) override;
  void DrainHost(const std::string& host, bool undo, controller::ResultCallback<controller::DrainReport> done) override;
  void GetStatus(controller::ResultCallback<std::string> done) override;
  void GetStatusFor(const std::string&, controller::ResultCallback<std::string> done) override { GetStatus(std::move(done)); }
  void RecordTrace(absl::Duration duration, size_t max_events,
                   controller::ResultCallback<controller::ClusterTrace> done) override;
  void StartProfile(SessionId session, const session::ProfileOptions& options, controller::StatusCallback done) override;
  void StopProfile(SessionId session, controller::ResultCallback<session::ClusterProfile> done) override;
  void ReadProfile(SessionId session, size_t host, uint64_t offset, controller::ResultCallback<Bytes> done) override;
  void DropProfile(SessionId session) override { profiled = SessionId(); }

  SessionId profiled;  // the session that has a profile: of the hosts "h0" and "h1", with the bytes of their names
  std::map<uint64_t, FakeSession*> sessions;  // live
  std::map<uint64_t, std::shared_ptr<controller::HostCallHandler>> handlers;
  std::map<uint64_t, gang::Share> shares;
  absl::Status open_error;
  resource::SliceRequest last_slice_request;
  controller::SliceState slice_state;  // the answer of AddSlice and AwaitSlice
  std::vector<SliceId> released_slices;

 private:
  template <class T, class Callback>
  void Answer(T value, Callback done) {
    Post([value = std::move(value), done = std::move(done)]() mutable { std::move(done)(std::move(value)); });
  }

  Executor* const executor_;
  std::deque<absl::AnyInvocable<void() &&>> tasks_;
  std::shared_ptr<const controller::ClusterInfo> info_;
  uint64_t next_session_ = 1;
};

}  // namespace pw::frontend::testing
