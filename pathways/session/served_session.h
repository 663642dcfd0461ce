// ServedSession: the controller's half of one session. It turns the client's numbered requests (session.proto) into calls of
// Session and Cluster, in order. It sends numbered events back: answers, calls of Python functions, and news of lanes.
//
// SessionService (service.h) owns it, and passes it the requests that come on the client's current connection. ServedSession
// outlives these connections; while there is none, events wait in the stream. Strand-confined.
//
// Invariants:
//   SV-1  each request is carried out once, in order of its number
//   SV-2  a request that expects an answer gets exactly one, unless the session ends
//   SV-3  a malformed request has no effect; it calls `on_broken`, whose owner ends the session, and no later request is carried out
//   SV-4  while the session is suspended or held back, or has kEventWindowBytes of events that the client has not acknowledged, its requests
//         wait. They are not acknowledged, so a client must stop sending at kRequestWindowBytes
//   SV-5  a client's role decides which requests it may make, before anything that a request names is looked up
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/identity/role.h"
#include "pathways/net/resumable/resumable_stream.h"
#include "pathways/session/frames.h"
#include "pathways/session/program_store.h"
#include "pathways/session/session.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {

class ServedSession final : public LaneListener, public std::enable_shared_from_this<ServedSession> {
 public:
  struct Owner {
    // The stream has unsent messages again: the owner sends them.
    absl::AnyInvocable<void()> on_unsent;
    // Held requests have been carried out: the owner acknowledges them.
    absl::AnyInvocable<void()> on_resumed;
    // The client has violated the protocol. May be called inside Take.
    absl::AnyInvocable<void(absl::Status)> on_broken;
    // Returns whether that session belongs to the same user as this one.
    absl::AnyInvocable<bool(SessionId)> same_user;
    // Answers a question about tokens.
    absl::AnyInvocable<absl::StatusOr<std::string>(const ::pathways::v1::TokenQuestion&)> on_tokens;
    // Answers a question about quotas from this session's client.
    absl::AnyInvocable<absl::StatusOr<std::string>(const ::pathways::v1::QuotaQuestion&)> on_quotas;
  };
  struct Client {
    identity::Caller caller;
    // The client has the rights of this process's user, also on the hosts. Others must name no files of hosts in compile options.
    bool own_user = false;
    bool observer = false;    // an operator's tool, whose session has no arrays and computes nothing
    bool restorable = false;  // the session can go on with another controller: the client is told which requests are settled
  };

  // `programs` must outlive it.
  ServedSession(Cluster* cluster, ProgramStore* programs, std::shared_ptr<Session> session, Client client, Owner owner);
  ~ServedSession() override;

  SessionId id() const { return session_->id(); }
  LaneRoutes* lane_routes() { return session_->lane_routes(); }
  net::ResumableStream& stream() { return stream_; }
  // Returns the number of the last request that has been carried out, which is the number to acknowledge.
  uint64_t carried_out() const { return stream_.received() - held_.size(); }
  // The client has received the events up to `number`. Carries out the requests that waited for this.
  absl::Status Acknowledge(uint64_t number);
  // Takes a batch of requests whose first number is `first`, with their payloads. Drops requests that it has taken before. INVALID_ARGUMENT:
  // requests before the batch are missing.
  absl::Status Take(uint64_t first, google::protobuf::RepeatedPtrField<::pathways::v1::SessionRequest> requests,
                    std::vector<Bytes> payloads);

  // Tells the client which requests are settled, if there are enough, or `all`. Call it before events or acknowledgements are sent.
  void TellSettled(bool all = false);
  // Carries out no request any more: carried_out() stays as it is. A session that is being restored carries out its unsettled requests all the same.
  void HoldBack() { held_back_ = true; }
  // Returns how many requests are not settled, or not known by the client to be. 0 if the client is not told.
  size_t unsettled() const;
  // Makes the session of the controller before: all parts of it. `done` runs once, later. REQUIRES: nothing was called before.
  struct RestorePart {
    ::pathways::v1::Restore restore;
    google::protobuf::RepeatedPtrField<::pathways::v1::SessionRequest> requests;
    std::vector<Bytes> payloads;
  };
  void Restore(std::vector<RestorePart> parts, StatusCallback done);

  // LaneListener
  void OnLane(const LaneOffer& lane) override;
  void OnLaneClosed(HostId host, const absl::Status& status) override;
  void OnBufferDone(uint64_t buffer) override;
  void OnSliceMoved(const SliceState& slice) override;
  void OnNodeCall(NodeCall call, ResultCallback<std::vector<LaneResult>> done) override;

 private:
  struct Request {
    uint64_t number = 0;
    ::pathways::v1::SessionRequest message;
    Bytes payload;

    size_t size() const { return message.ByteSizeLong() + payload.size(); }
  };
  using Fill = absl::AnyInvocable<void(::pathways::v1::Answer&, Bytes& payload) &&>;

  // Carries out a request, or holds it (SV-4).
  void Run(Request request);
  void RunHeld();  // if they need not wait any more
  // Runs the held requests once the session is resumed, if it is suspended now.
  void AwaitResumption();
  bool must_hold() const { return held_back_ || session_->suspended() || stream_.kept_bytes() > kEventWindowBytes; }
  void Break(const Request& request, const absl::Status& status);
  // Carry out a request, and return an error if it is malformed.
  absl::Status CarryOut(Request& request);
  absl::Status CarryOutNow(Request& request);
  // Appends an event to the stream.
  void Tell(::pathways::v1::SessionEvent event, std::vector<Bytes> payload = {});
  // Answers request `number`: with the error, or with the value that `fill` writes (null: none). `hold` keeps the request unsettled
  // until the client has acknowledged the answer (Session::HoldRequest).
  void Answer(uint64_t number, const absl::Status& status, Fill fill, std::shared_ptr<void> hold = nullptr);
  // Return callbacks that answer a request: with a status alone, or with a value that `fill(value, answer, payload)` writes.
  StatusCallback AnswerStatus(uint64_t number);
  template <class T, class F>
  ResultCallback<T> AnswerResult(uint64_t number, F fill);

  // Notes the results whose names the client has to be told.
  void NoteResults(const Request& request);
  void NoteResults(uint64_t number, const std::vector<Handle>& results);
  // Keeps the hold until the client has acknowledged the events so far.
  void KeepUntilAcknowledged(std::shared_ptr<void> hold);

  // -- serve_restore.cc
  struct Restoring;
  absl::Status RestoreSlices(const ::pathways::v1::Restore& part);
  absl::Status RestoreArrays(const ::pathways::v1::Restore& part);
  absl::Status RestorePrograms(const std::shared_ptr<Restoring>& restoring, RestorePart& part);
  void FinishRestore(const std::shared_ptr<Restoring>& restoring);
  absl::Status CarryOutUnsettled(Restoring& restoring);

  // -- serve_arrays.cc
  absl::Status CarryOutOnArrays(Request& request);
  absl::Status MakeArray(const ::pathways::v1::MakeArray& request);
  absl::Status MakeErrorArray(const ::pathways::v1::MakeErrorArray& request);
  void StoreHostBuffer(const ::pathways::v1::HostBuffer& request, Bytes payload);
  absl::Status LoseLane(const ::pathways::v1::LaneLost& request);
  void SaveArrays(uint64_t number, const ::pathways::v1::SaveArrays& request);
  absl::Status LoadArrays(uint64_t number, const ::pathways::v1::LoadArrays& request);
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
  absl::StatusOr<CompileRequest> CompileRequestFrom(const ::pathways::v1::CompileProgram& request, Bytes program) const;
  void Execute(uint64_t number, const ::pathways::v1::ExecuteProgram& request);
  void FetchRun(uint64_t number, Handle status);
  void AnalyzeCost(uint64_t number, Handle executable);
  // Answers with bytes.
  ResultCallback<std::string> AnswerBytes(uint64_t number);
  void DropExecutable(Handle executable);
  Handle ExecutableOf(Handle executable) const;

  // -- serve_cluster.cc
  absl::Status CarryOutOnCluster(Request& request);
  // Returns PERMISSION_DENIED if this client must not do `what`: to a session of another user, or at all.
  absl::Status MayTouch(SessionId session, absl::string_view what);
  absl::Status MustBeOperator(absl::string_view what) const;
  void AnswerText(uint64_t number, absl::StatusOr<std::string> text);
  void AskTokens(uint64_t number, const ::pathways::v1::TokenQuestion& question);
  void AskQuotas(uint64_t number, const ::pathways::v1::QuotaQuestion& question);
  absl::Status AskPublished(uint64_t number, const ::pathways::v1::PublishedQuestion& proto);
  absl::Status AddSlice(uint64_t number, const ::pathways::v1::AddSlice& request);
  void AwaitSlice(uint64_t number, const ::pathways::v1::AwaitSlice& request);
  void ChangeShare(uint64_t number, const ::pathways::v1::ChangeShare& request);
  void GetStatus(uint64_t number);
  void RecordTrace(uint64_t number, const ::pathways::v1::RecordTrace& request);
  void Profile(uint64_t number, const ::pathways::v1::ProfileRequest& request);
  void DrainHost(uint64_t number, const ::pathways::v1::DrainHost& request);
  void Suspend(uint64_t number, const ::pathways::v1::SuspendSession& request);
  absl::Status TakeHostCallReply(const ::pathways::v1::HostCallReply& reply);

  Cluster* const cluster_;
  ProgramStore* const programs_;
  const Client client_;
  Owner owner_;
  net::ResumableStream stream_;
  bool broken_ = false;
  bool held_back_ = false;
  bool awaits_resumption_ = false;
  std::deque<Request> held_;                         // requests that wait (SV-4)
  size_t held_bytes_ = 0;                            // the sizes of their payloads and messages
  absl::flat_hash_map<Handle, Handle> executables_;  // from the client's handle to the session's
  absl::flat_hash_set<Handle> many_nodes_;           // those of them that are programs of many nodes
  Handle next_fetch_ = kFirstServerHandle;           // for host buffers of fetches
  uint64_t next_call_ = 1;
  absl::flat_hash_map<Handle, std::shared_ptr<void>> runs_;  // holds of the requests that began them, by status handle
  // Results of requests of which the client does not know that they are settled, and whose names it cannot tell.
  struct ToName {
    std::vector<std::pair<Handle, uint64_t>> names;
    // Until all requests before are done: a result may be the array of one of them, which then makes it when it is carried out again.
    std::shared_ptr<void> hold;
  };
  std::map<uint64_t, ToName> to_name_;
  // Holds of the requests whose answers the client has not acknowledged, by the events of the answers.
  std::deque<std::pair<uint64_t, std::shared_ptr<void>>> unacknowledged_;
  std::map<uint64_t, ResultCallback<std::vector<LaneResult>>> calls_;  // calls of nodes that await the client's reply
  const std::shared_ptr<Session> session_;                             // last: ends before the objects its callbacks use
};

template <class T, class F>
ResultCallback<T> ServedSession::AnswerResult(uint64_t number, F fill) {
  return [weak = weak_from_this(), number, fill = std::move(fill),
          hold = session_->HoldRequest(number)](absl::StatusOr<T> value) mutable {
    auto self = weak.lock();
    if (self == nullptr) return;
    if (!value.ok()) return self->Answer(number, value.status(), nullptr, std::move(hold));
    self->Answer(
        number, absl::OkStatus(),
        [&](::pathways::v1::Answer& answer, Bytes& payload) { fill(*std::move(value), answer, payload); }, std::move(hold));
  };
}

}  // namespace pw::session
