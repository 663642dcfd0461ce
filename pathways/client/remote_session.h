// RemoteSession: session::Session with the controller in another process, over a Link.
//
// Only callbacks wait for the controller. An operation on arrays is sent, and returns OK if this end finds no error. If the
// controller refuses the operation, its results hold the error, as after any failure (session.h). Host buffers stay here until
// their hosts have them (host_buffers.h); fetched bytes stay until they are deleted (fetched_buffers.h).
//
// A session with kMostKeptBytes of unacknowledged requests is suspended: its front end then holds its client back.
//
// If the controller ends and another one takes its place, the session may go on with that one (link.h).
//
// Files: remote_session.cc (lifetime, events, host buffers), remote_arrays.cc, remote_programs.cc.
// Strand-confined, except where Session says otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "pathways/client/answers.h"
#include "pathways/client/array_table.h"
#include "pathways/client/compiled_programs.h"
#include "pathways/client/fetched_buffers.h"
#include "pathways/client/lanes.h"
#include "pathways/client/link.h"
#include "pathways/client/node_calls.h"
#include "pathways/client/session_slices.h"
#include "pathways/session/session.h"

namespace pw::client {

class RemoteSession final : public session::Session, private Link::Owner {
 public:
  using Handle = session::Handle;
  using Handles = absl::Span<const Handle>;
  using Specs = absl::Span<const buffers::ArraySpec>;
  using CopySemantics = session::CopySemantics;
  using ExecutableRef = std::shared_ptr<const session::ExecutableInfo>;
  static constexpr size_t kMostKeptBytes = size_t{64} << 20;
  // The cluster as the controller describes it to a new session.
  struct Welcome {
    SessionId id;
    std::shared_ptr<const session::ClusterInfo> cluster;
    std::shared_ptr<const session::SpareDevices> spares;
  };

  // `opened` runs once, on the strand, when the session is open or has failed. The caller must hold the session until then.
  static std::shared_ptr<RemoteSession> Open(Link::Options options, const Link::Environment& environment,
                                             session::StatusCallback opened, const HostBuffers::Limits& limits = {});
  ~RemoteSession() override;
  // Ends the session, also while it is being opened: what waits for an answer gets `why`.
  void End(const absl::Status& why);

  // REQUIRES: opened.
  const Welcome& welcome() const { return welcome_; }
  Link& link() { return *link_; }
  Lanes& lanes() { return *lanes_; }
  // Sets the handler of calls from programs into this process; null: such calls fail.
  void SetHostCalls(std::shared_ptr<session::HostCallHandler> handler) {
    lanes_->SetHostCalls(handler);
    node_calls_.SetHandler(std::move(handler));
  }
  // Sends a request with its payload to the controller; `done` gets the answer. Returns the request's number; 0 if the session is over.
  uint64_t Ask(::pathways::v1::SessionRequest request, AnswerCallback done, std::vector<Bytes> payload = {});

  // Says goodbye to the controller, for a process that ends: callbacks that wait are not called. `done` runs when it is said.
  void Leave(absl::AnyInvocable<void() &&> done) { link_->Close(std::move(done)); }

  // --- Session ---
  SessionId id() const override { return welcome_.id; }
  Handle NewHandle() override { return next_handle_++; }
  bool suspended() const override { return ended_.ok() && link_->kept_bytes() >= kMostKeptBytes; }
  void WhenResumed(absl::AnyInvocable<void() &&> resumed) override;
  int64_t array_bytes() const override { return array_bytes_; }

  void AnnounceHostBuffer(Handle handle, int64_t bytes, session::StatusCallback admitted) override;
  void ForgetHostBuffer(Handle handle) override;
  void FailHostBuffer(Handle handle, absl::Status error) override;
  absl::Status StoreHostBuffer(Handle handle, Bytes data) override;
  void LookupHostBuffer(Handle handle, session::ResultCallback<Bytes> done) override;
  absl::Status DeleteHostBuffer(Handle handle) override;

  absl::Status MakeArray(Handle result, const buffers::ArraySpec& spec, std::vector<session::HostShard> sources) override;
  absl::Status MakeErrorArray(Handle result, const buffers::ArraySpec& spec, absl::Status error) override;
  absl::Status Assemble(Handle result, const buffers::ArraySpec& spec, Handles singles, CopySemantics semantics) override;
  absl::Status Disassemble(Handles results, Handle array, CopySemantics semantics) override;
  absl::Status FullyReplicatedShard(Handle result, Handle array, CopySemantics semantics) override;
  absl::Status Copy(Handles results, Handles arrays, std::optional<std::vector<DeviceId>> devices,
                    std::optional<std::string> memory_kind, CopySemantics semantics) override;
  absl::Status Reshard(Handles results, Handles arrays, Specs specs, CopySemantics semantics) override;
  absl::Status Remap(Handles results, Handles arrays, const buffers::RemapPlan& plan, Specs specs,
                     CopySemantics semantics) override;
  absl::Status Bitcast(Handles results, Handles arrays, Specs specs, CopySemantics semantics) override;
  void WhenReady(Handles arrays, session::StatusCallback done) override;
  void CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims> byte_strides,
                        session::StatusCallback done) override;
  void SaveArrays(session::SaveRequest request, session::StatusCallback done) override;
  void LoadArrays(session::LoadRequest request, session::StatusCallback done) override;
  absl::Status Delete(Handles arrays) override;
  absl::Status Destruct(Handles arrays) override;
  absl::StatusOr<bool> IsDeleted(Handle array) override { return arrays_.IsDeleted(array); }
  absl::StatusOr<buffers::ArraySpec> Spec(Handle array) override;

  void Compile(session::CompileRequest request, session::ResultCallback<ExecutableRef> done) override;
  void CompileProgram(Bytes program, session::ResultCallback<ExecutableRef> done) override;
  absl::StatusOr<ExecutableRef> Info(Handle executable) override;
  absl::StatusOr<session::ExecuteReply> Execute(const session::ExecuteRequest& request) override;
  void FetchExecuteResult(Handle status, session::ResultCallback<session::RunResult> done) override;
  void AwaitEffects(session::StatusCallback done) override;
  void AskPublished(const session::PublishedQuestion& question, session::ResultCallback<std::string> done) override;
  void GetCostAnalysis(Handle executable, session::ResultCallback<session::CostAnalysis> done) override;
  void GetProgramText(Handle executable, session::ResultCallback<std::string> done) override;
  void GetProgramModule(Handle executable, session::ResultCallback<std::string> done) override;
  absl::Status DestructExecutable(Handle executable) override;

 private:
  RemoteSession(const Lanes::Options& lanes, const Link::Environment& environment, session::StatusCallback opened);

  // Link::Owner
  void OnWelcome(const ::pathways::v1::SessionWelcome& welcome) override;
  void OnEvent(::pathways::v1::SessionEvent event, Bytes payload) override;
  void OnEnded(const absl::Status& status) override;
  void OnAcknowledged() override;
  std::vector<RestorePart> OnRestoreWanted() override;
  void OnRestored() override;
  std::string Obstacle() override;

  void OnSettled(const ::pathways::v1::SettledRequests& settled);
  // Returns a callback that notes the answer to a request about a slice, and passes it on.
  AnswerCallback NotingSlice(const ::pathways::v1::SessionRequest& request, AnswerCallback done);
  // Returns the name that hosts know the result of a request by; 0: it has none.
  uint64_t NameOf(uint64_t request, uint64_t result) const;

  Lanes::Owner OwnerOfLanes();
  NodeCalls::Owner OwnerOfNodeCalls();
  // Fetches an array, by lane if it has more than `in_frame` bytes. `bytes`: its size, if known.
  void FetchBytes(Handle array, const std::optional<buffers::Dims>& byte_strides, int64_t in_frame, std::optional<int64_t> bytes,
                  session::ResultCallback<Bytes> done);
  std::optional<int64_t> BytesToFetch(Handle array, const std::optional<buffers::Dims>& byte_strides) const;
  void AskStatus(::pathways::v1::SessionRequest request, session::StatusCallback done);
  // Runs the callback in a task of its own, never inside the call.
  void Post(absl::AnyInvocable<void() &&> task);
  // -- remote_arrays.cc
  absl::Status Rearrange(::pathways::v1::SessionRequest request, ::pathways::v1::Rearrange* body, Handles results, Handles arrays,
                         CopySemantics semantics);
  // Rearrange for a request whose results have these specs.
  absl::Status RearrangeAs(::pathways::v1::SessionRequest request, ::pathways::v1::Rearrange* body, Handles results,
                           Handles arrays, Specs specs, CopySemantics semantics);
  // -- remote_programs.cc
  // Sends the program's hash, and the program if the controller does not have it or it is small.
  void CompileByHash(::pathways::v1::SessionRequest request, Bytes program, session::ResultCallback<ExecutableRef> done);
  void Compile(::pathways::v1::SessionRequest request, Bytes program, session::ResultCallback<ExecutableRef> done);
  void OnCompiled(::pathways::v1::SessionRequest request, Bytes program, const ::pathways::v1::Answer& answer,
                  session::ResultCallback<ExecutableRef> done);

  const Link::Environment environment_;
  session::StatusCallback opened_;
  absl::Status ended_;  // not OK: the session is over
  Welcome welcome_;
  Handle next_handle_;
  ArrayTable arrays_;
  absl::flat_hash_map<Handle, ExecutableRef> executables_;
  CompiledPrograms compiled_;
  SessionSlices slices_;
  FetchedBuffers fetched_;
  int64_t array_bytes_ = 0;
  std::vector<absl::AnyInvocable<void() &&>> when_resumed_;
  std::map<uint64_t, AnswerCallback> asked_;  // by the request's number
  NodeCalls node_calls_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // held weakly by posted tasks
  const int64_t in_frame_bytes_;
  std::shared_ptr<Lanes> lanes_;
  std::shared_ptr<Link> link_;
};

}  // namespace pw::client
