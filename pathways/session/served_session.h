// ServedSession: the controller's half of one session: carries out requests in order, and numbers what it tells the client.
//
// Strand-confined. Outlives the connections over which it is served (service.h); what it tells while there is none waits.
//
// Invariants:
//   SV-1  each request is carried out once, in the order of the numbers
//   SV-2  a request that asks for something has exactly one Answer, unless the session ends
//   SV-3  a request that cannot be read ends the session (`on_broken`), and nothing of it has taken effect
//   SV-4  while the session is suspended its requests wait
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "pathways/base/bytes.h"
#include "pathways/net/resumable_stream.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {

class ServedSession final : public HostCallHandler, public LaneListener, public std::enable_shared_from_this<ServedSession> {
 public:
  struct Owner {
    // There is something to send, which was not so before.
    absl::AnyInvocable<void()> on_unsent;
    // The client has broken a rule of the protocol. May be called inside Take.
    absl::AnyInvocable<void(absl::Status)> on_broken;
  };

  ServedSession(Cluster* cluster, std::shared_ptr<Session> session, Owner owner);
  ~ServedSession() override;

  SessionId id() const { return session_->id(); }
  LaneRoutes* lane_routes() { return session_->lane_routes(); }
  net::ResumableStream& stream() { return stream_; }
  // The requests of a batch that begins with this number, and their payloads. Those taken before are dropped.
  absl::Status Take(uint64_t first, google::protobuf::RepeatedPtrField<::pathways::v1::SessionRequest> requests,
                    std::vector<Bytes> payloads);

  // HostCallHandler
  void OnHostCall(HostCall call, ResultCallback<std::vector<Bytes>> done) override;

  // LaneListener
  void OnLane(const LaneOffer& lane) override;
  void OnLaneClosed(HostId host, const absl::Status& status) override;
  void OnBufferDone(uint64_t buffer) override;

 private:
  struct Request {
    uint64_t number = 0;
    ::pathways::v1::SessionRequest message;
    Bytes payload;
  };
  using Fill = absl::AnyInvocable<void(::pathways::v1::Answer&, Bytes& payload) &&>;

  void Run(Request request);
  void RunHeld();
  // An error: the request cannot be read.
  absl::Status CarryOut(Request& request);
  void Tell(::pathways::v1::SessionEvent event, std::vector<Bytes> payload = {});
  void Answer(uint64_t number, const absl::Status& status, Fill fill);
  // What answers a request with a status alone, or with a value that `fill` writes: fill(value, answer, payload).
  StatusCallback AnswerStatus(uint64_t number);
  template <class T, class F>
  ResultCallback<T> AnswerResult(uint64_t number, F fill);

  // -- serve_arrays.cc
  absl::Status CarryOutOnArrays(Request& request);
  absl::Status MakeArray(const ::pathways::v1::MakeArray& request);
  absl::Status MakeErrorArray(const ::pathways::v1::MakeErrorArray& request);
  void StoreHostBuffer(const ::pathways::v1::HostBuffer& request, Bytes payload);
  absl::Status LoseLane(const ::pathways::v1::LaneLost& request);
  absl::Status Assemble(const ::pathways::v1::Rearrange& request);
  absl::Status Disassemble(const ::pathways::v1::Rearrange& request);
  absl::Status ReplicatedShard(const ::pathways::v1::Rearrange& request);
  absl::Status Copy(const ::pathways::v1::Rearrange& request);
  absl::Status Reshard(const ::pathways::v1::Rearrange& request);
  absl::Status Remap(const ::pathways::v1::Rearrange& request);
  absl::Status Bitcast(const ::pathways::v1::Rearrange& request);

  // -- serve_programs.cc
  absl::Status CarryOutOnPrograms(Request& request);
  void Fetch(uint64_t number, const ::pathways::v1::FetchArray& request);
  absl::Status FetchByLane(uint64_t number, const ::pathways::v1::FetchArray& request);
  void Compile(uint64_t number, const ::pathways::v1::CompileProgram& request, Bytes program);
  void Execute(const ::pathways::v1::ExecuteProgram& request);
  void FetchRun(uint64_t number, Handle status);
  void AnalyzeCost(uint64_t number, Handle executable);
  void GetProgramText(uint64_t number, Handle executable);
  void DropExecutable(Handle executable);
  Handle ExecutableOf(Handle executable) const;

  // -- serve_cluster.cc
  absl::Status CarryOutOnCluster(Request& request);
  absl::Status AddSlice(uint64_t number, const ::pathways::v1::AddSlice& request);
  void AwaitSlice(uint64_t number, const ::pathways::v1::AwaitSlice& request);
  void ChangeShare(uint64_t number, const ::pathways::v1::ChangeShare& request);
  void GetStatus(uint64_t number);
  void RecordTrace(uint64_t number, const ::pathways::v1::RecordTrace& request);
  void DrainHost(uint64_t number, const ::pathways::v1::DrainHost& request);
  void Suspend(uint64_t number, const ::pathways::v1::SuspendSession& request);
  absl::Status TakeHostCallReply(const ::pathways::v1::HostCallReply& request, const Bytes& payload);

  Cluster* const cluster_;
  Owner owner_;
  net::ResumableStream stream_;
  bool broken_ = false;
  std::deque<Request> held_;                        // while the session is suspended
  absl::flat_hash_map<Handle, Handle> executables_;  // the client's name for each, and the session's
  Handle next_fetch_ = kFirstServerHandle;           // names host buffers of fetches
  uint64_t next_call_ = 1;
  std::map<uint64_t, ResultCallback<std::vector<Bytes>>> calls_;  // that the client is to reply to
  const std::shared_ptr<Session> session_;           // last: ended before what its callbacks use
};

template <class T, class F>
ResultCallback<T> ServedSession::AnswerResult(uint64_t number, F fill) {
  return [weak = weak_from_this(), number, fill = std::move(fill)](absl::StatusOr<T> value) mutable {
    auto self = weak.lock();
    if (self == nullptr) return;
    if (!value.ok()) return self->Answer(number, value.status(), nullptr);
    self->Answer(number, absl::OkStatus(),
                 [&](::pathways::v1::Answer& answer, Bytes& payload) { fill(*std::move(value), answer, payload); });
  };
}

}  // namespace pw::session
