// SessionImpl: the controller's session: everything of one client. It passes each request of the client (Session) and each event of
// the cluster to the part that owns it. Several parts have handles of executables, so SessionImpl decides to which of them a handle
// belongs: it may name a program of many nodes, a program of published arrays, or an executable of one node.
//
// The parts, by room. A part uses only parts above it, which it gets by its constructor:
//   - context/: SessionContext (number, hosts, devices, arrays), SessionRestorer, SessionLanes, PendingReads (requests that wait
//     for arrays), RunResults
//   - arrays/: HostBufferStore (bytes that clients send apart from requests), ArrayMaker, ArrayRearranger, ArrayCopier, ArrayReader,
//     ArrayFiles
//   - executables/: ExecutableTable, SessionFunctions (Python on hosts), SessionExecutables
//   - publications/: SessionPublications (arrays for other sessions)
//   - runs/: JitCalls (the hot path), SessionPrograms (programs of many nodes)
//   - moves/: SeatLoader (hosts that take lost hosts' seats), SessionMover (slices that move, clients that are suspended)
// SessionLanes, which is above ArrayReader, reads arrays by a callback; SessionRestorer adds executables by one.
//
// The client's callbacks run in tasks of their own, never inside the call (Session). Work in flight copies the state that it
// needs or holds `alive` of the context. Waiting requests end with CANCELLED in the destructor. Strand-confined.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/session.h"
#include "pathways/controller/session/arrays/array_copier.h"
#include "pathways/controller/session/arrays/array_files.h"
#include "pathways/controller/session/arrays/array_maker.h"
#include "pathways/controller/session/arrays/array_reader.h"
#include "pathways/controller/session/arrays/array_rearranger.h"
#include "pathways/controller/session/arrays/host_buffer_store.h"
#include "pathways/controller/session/context/pending_reads.h"
#include "pathways/controller/session/context/run_results.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"
#include "pathways/controller/session/context/session_restorer.h"
#include "pathways/controller/session/executables/executable_table.h"
#include "pathways/controller/session/executables/session_executables.h"
#include "pathways/controller/session/executables/session_functions.h"
#include "pathways/controller/session/moves/seat_loader.h"
#include "pathways/controller/session/moves/session_mover.h"
#include "pathways/controller/session/runs/jit_calls.h"
#include "pathways/controller/session/runs/session_programs.h"

namespace pw::controller {

class Publications;
class SessionPublications;

class SessionImpl final : public Session {
 public:
  using Arrays = SessionContext::Arrays;
  using ArraySpec = SessionContext::ArraySpec;

  // `fabric` outlives the session. `on_end` is called in the destructor, last.
  SessionImpl(SessionId id, session::NewSession about, Fabric* fabric, std::shared_ptr<Publications> publications,
              absl::AnyInvocable<void() &&> on_end);
  ~SessionImpl() override;

  // --- for the cluster ---
  const session::NewSession& about() const { return about_; }
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);
  // A host took the seat of these devices. Their uses get `until_loaded` until the session's programs are loaded there.
  void OnSeatTaken(const std::vector<DeviceId>& devices, const absl::Status& until_loaded) {
    seats_.OnSeatTaken(devices, until_loaded);
  }
  // The client's virtual devices are `count` ids from `first` on.
  void SetVirtualDevices(DeviceId first, int count) { context_.devices().SetVirtual(first, count); }
  // Asks before the client uses a physical device without a slice (SessionDevices).
  void SetMayUse(SessionDevices::MayUse may_use) { context_.devices().SetMayUse(std::move(may_use)); }
  // After a slice was released: its arrays become errors and are freed; programs for its devices cannot run any more.
  void OnSliceReleased(const absl::flat_hash_set<DeviceId>& devices, const absl::Status& error);
  // Moves the client's virtual devices, suspends and resumes the client.
  SessionMover& mover() { return mover_; }
  // Tells the client, once a slice has moved.
  void OnSliceMoved(const session::SliceState& slice) { lanes_.TellMoved(slice); }
  // Fails all computations with this error from now on, until it is called with OK.
  void RefuseComputations(absl::Status refusal) { context_.set_refusal(std::move(refusal)); }

  size_t num_arrays() const { return context_.arrays().size(); }
  int64_t live_bytes() const { return context_.arrays().TotalBytes(); }  // of arrays
  size_t num_executables() const { return executable_table_.size(); }
  size_t num_programs() const { return programs_.size(); }
  const SessionPrograms& programs() const { return programs_; }
  // Returns the physical devices to which the client's devices are bound.
  std::vector<DeviceId> PhysicalOf(const std::vector<DeviceId>& devices) { return context_.devices().PhysicalOf(devices); }
  size_t num_program_runs() const { return programs_.num_runs(); }
  const HostBufferStore& host_buffers() const { return host_buffers_; }
  void OnTick(absl::Time now, bool slept);  // once a tick; `slept`: this process was stopped for a while

  // Sets the handler of calls from programs into the client's process; null: such calls fail.
  void SetHostCalls(std::shared_ptr<HostCallHandler> handler) { programs_.SetHostCalls(std::move(handler)); }

  // --- Session ---
  SessionId id() const override { return context_.id(); }
  Handle NewHandle() override { return context_.arrays().NewHandle(); }
  void BeginRequest(uint64_t number) override { context_.names().Begin(number); }
  void EndRequest() override { context_.names().End(); }
  std::shared_ptr<void> HoldRequest(uint64_t number) override {
    return std::make_shared<RequestHold>(context_.names().unsettled(), number);
  }
  bool suspended() const override { return mover_.suspended(); }
  void WhenResumed(absl::AnyInvocable<void() &&> resumed) override { mover_.WhenResumed(std::move(resumed)); }
  SessionLanes* lane_routes() override { return &lanes_; }
  SessionRestorer* restoration() override { return &restorer_; }

  void AnnounceHostBuffer(Handle handle, int64_t bytes, StatusCallback admitted) override {
    host_buffers_.Announce(handle, bytes, std::move(admitted));
  }
  void ForgetHostBuffer(Handle handle) override { host_buffers_.Forget(handle); }
  void FailHostBuffer(Handle handle, absl::Status error) override { host_buffers_.Fail(handle, std::move(error)); }
  absl::Status StoreHostBuffer(Handle handle, Bytes data) override { return host_buffers_.Store(handle, std::move(data)); }
  void LookupHostBuffer(Handle handle, ResultCallback<Bytes> done) override { host_buffers_.Lookup(handle, std::move(done)); }
  absl::Status DeleteHostBuffer(Handle handle) override { return host_buffers_.Delete(handle); }

  absl::Status MakeArray(Handle result, const ArraySpec& spec, std::vector<HostShard> sources) override {
    return maker_.Make(result, spec, sources);
  }
  absl::Status MakeErrorArray(Handle result, const ArraySpec& spec, absl::Status error) override {
    return maker_.MakeError(result, spec, std::move(error));
  }
  absl::Status Assemble(Handle result, const ArraySpec& spec, Arrays singles, CopySemantics semantics) override {
    return rearranger_.Assemble(result, spec, singles, semantics);
  }
  absl::Status Disassemble(Arrays results, Handle array, CopySemantics semantics) override {
    return rearranger_.Disassemble(results, array, semantics);
  }
  absl::Status FullyReplicatedShard(Handle result, Handle array, CopySemantics semantics) override {
    return rearranger_.FullyReplicatedShard(result, array, semantics);
  }
  absl::Status Copy(Arrays results, Arrays arrays, std::optional<std::vector<DeviceId>> devices,
                    std::optional<std::string> memory_kind, CopySemantics semantics) override {
    return copier_.Copy(results, arrays, devices, memory_kind, semantics);
  }
  absl::Status Reshard(Arrays results, Arrays arrays, absl::Span<const ArraySpec> specs, CopySemantics semantics) override {
    return copier_.Reshard(results, arrays, specs, semantics);
  }
  absl::Status Remap(Arrays results, Arrays arrays, const buffers::RemapPlan& plan, absl::Span<const ArraySpec> specs,
                     CopySemantics semantics) override {
    return rearranger_.Remap(results, arrays, plan, specs, semantics);
  }
  absl::Status Bitcast(Arrays results, Arrays arrays, absl::Span<const ArraySpec> specs, CopySemantics semantics) override {
    return rearranger_.Bitcast(results, arrays, specs, semantics);
  }
  void WhenReady(Arrays arrays, StatusCallback done) override { reader_.WhenReady(arrays, std::move(done)); }
  void CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims> byte_strides,
                        StatusCallback done) override {
    reader_.CopyToHostBuffer(array, host_buffer, byte_strides, std::move(done));
  }
  void SaveArrays(session::SaveRequest request, StatusCallback done) override {
    files_.Save(std::move(request), std::move(done));
  }
  void LoadArrays(session::LoadRequest request, StatusCallback done) override { files_.Load(request, std::move(done)); }
  absl::Status Delete(Arrays arrays) override { return context_.arrays().Delete(arrays); }
  absl::Status Destruct(Arrays arrays) override { return context_.arrays().Erase(arrays); }
  absl::StatusOr<bool> IsDeleted(Handle array) override { return reader_.IsDeleted(array); }
  absl::StatusOr<ArraySpec> Spec(Handle array) override { return reader_.Spec(array); }

  void Compile(CompileRequest request, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) override {
    executables_.Compile(std::move(request), std::move(done));
  }
  void AwaitEffects(StatusCallback done) override { run_results_.AwaitEffects(std::move(done)); }
  void CompileProgram(Bytes program, ResultCallback<std::shared_ptr<const ExecutableInfo>> done) override;
  absl::StatusOr<std::shared_ptr<const ExecutableInfo>> Info(Handle executable) override;
  absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request) override;
  void FetchExecuteResult(Handle status, ResultCallback<RunResult> done) override { run_results_.Fetch(status, std::move(done)); }
  void GetCostAnalysis(Handle executable, ResultCallback<CostAnalysis> done) override;
  void GetProgramText(Handle executable, ResultCallback<std::string> done) override;
  void GetProgramModule(Handle executable, ResultCallback<std::string> done) override;
  absl::Status DestructExecutable(Handle executable) override;
  void AskPublished(const session::PublishedQuestion& question, ResultCallback<std::string> done) override;

 private:
  // Answers a request to describe a program of many nodes with an error. Returns false for any other executable.
  template <class T>
  bool RefuseDescription(Handle executable, ResultCallback<T>& done);

  const session::NewSession about_;
  absl::AnyInvocable<void() &&> on_end_;
  SessionContext context_;
  SessionRestorer restorer_;
  SessionLanes lanes_;
  PendingReads reads_;
  HostBufferStore host_buffers_;
  ArrayMaker maker_;
  ArrayRearranger rearranger_;
  ArrayCopier copier_;
  ArrayReader reader_;
  ArrayFiles files_;
  ExecutableTable executable_table_;
  SessionFunctions functions_;
  SessionExecutables executables_;
  std::unique_ptr<SessionPublications> publications_;
  RunResults run_results_;
  JitCalls jit_calls_;
  SessionPrograms programs_;
  SeatLoader seats_;
  SessionMover mover_;
};

}  // namespace pw::controller
