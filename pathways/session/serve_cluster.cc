// Session requests about the cluster: slices, shares, host calls and operators' requests.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/served_session.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

constexpr double kLongestTraceSeconds = 600;
constexpr uint64_t kTraceEvents = 200000;  // of each process, if the client names no limit

// Converts to a duration of at most a day; an invalid one becomes zero.
absl::Duration Seconds(double seconds) {
  constexpr double kDay = 24 * 3600;
  return seconds > 0 ? absl::Seconds(std::min(seconds, kDay)) : absl::ZeroDuration();
}

}  // namespace

absl::Status ServedSession::CarryOutOnCluster(Request& request) {
  using ::pathways::v1::SessionRequest;
  const uint64_t number = request.number;
  const SessionRequest& message = request.message;
  switch (message.kind_case()) {
    case SessionRequest::kAddSlice:
      return AddSlice(number, message.add_slice());
    case SessionRequest::kAwaitSlice:
      AwaitSlice(number, message.await_slice());
      break;
    case SessionRequest::kReleaseSlice:
      cluster_->ReleaseSlice(id(), SliceId(message.release_slice()), AnswerStatus(number));
      break;
    case SessionRequest::kChangeShare:
      ChangeShare(number, message.change_share());
      break;
    case SessionRequest::kHostCallReply:
      return TakeHostCallReply(message.host_call_reply());
    case SessionRequest::kStatus:
      GetStatus(number);
      break;
    case SessionRequest::kRecordTrace:
      RecordTrace(number, message.record_trace());
      break;
    case SessionRequest::kProfile:
      Profile(number, message.profile());
      break;
    case SessionRequest::kDrainHost:
      DrainHost(number, message.drain_host());
      break;
    case SessionRequest::kSuspend:
      Suspend(number, message.suspend());
      break;
    case SessionRequest::kTokens:
      AskTokens(number, message.tokens());
      break;
    case SessionRequest::kQuotas:
      AskQuotas(number, message.quotas());
      break;
    default:
      return absl::InternalError("it is not about the cluster");
  }
  return absl::OkStatus();
}

absl::Status ServedSession::AddSlice(uint64_t number, const ::pathways::v1::AddSlice& proto) {
  PW_ASSIGN_OR_RETURN(const resource::SliceRequest request, SliceRequestFrom(proto));
  cluster_->AddSlice(id(), request, AnswerResult<SliceState>(number, [](const SliceState& state, auto& answer, Bytes&) {
                       ToProto(state, answer.mutable_slice());
                     }));
  return absl::OkStatus();
}

void ServedSession::AwaitSlice(uint64_t number, const ::pathways::v1::AwaitSlice& request) {
  cluster_->AwaitSlice(id(), SliceId(request.slice()), Seconds(request.seconds()),
                       AnswerResult<SliceState>(number, [](const SliceState& state, auto& answer, Bytes&) {
                         ToProto(state, answer.mutable_slice());
                       }));
}

void ServedSession::ChangeShare(uint64_t number, const ::pathways::v1::ChangeShare& request) {
  const SessionId session = request.session() == 0 ? id() : SessionId(request.session());
  if (absl::Status status = MayTouch(session, "change the share of"); !status.ok()) return Answer(number, status, nullptr);
  const gang::ShareChange change = ShareChangeFrom(request);
  if (!client_.caller.is_operator()) {
    if (absl::Status status = cluster_->CheckQuota(session, change); !status.ok()) return Answer(number, status, nullptr);
  }
  cluster_->ChangeShare(session, change, AnswerResult<gang::Share>(number, [](const gang::Share& share, auto& answer, Bytes&) {
                          answer.mutable_share()->set_weight(share.weight);
                          answer.mutable_share()->set_priority(share.priority);
                        }));
}

void ServedSession::GetStatus(uint64_t number) {
  auto answer = AnswerResult<std::string>(
      number, [](std::string json, auto&, Bytes& payload) { payload = Bytes::FromString(std::move(json)); });
  if (client_.caller.is_operator()) return cluster_->GetStatus(std::move(answer));
  cluster_->GetStatusFor(client_.caller.user, std::move(answer));
}

void ServedSession::RecordTrace(uint64_t number, const ::pathways::v1::RecordTrace& request) {
  if (absl::Status status = MustBeOperator("record what all clients do"); !status.ok()) return Answer(number, status, nullptr);
  if (!(request.seconds() > 0 && request.seconds() <= kLongestTraceSeconds)) {
    return Answer(number,
                  absl::InvalidArgumentError(absl::StrCat("a trace lasts more than 0 and at most ", kLongestTraceSeconds,
                                                          " seconds, not ", request.seconds())),
                  nullptr);
  }
  cluster_->RecordTrace(Seconds(request.seconds()), request.max_events() == 0 ? kTraceEvents : request.max_events(),
                        AnswerResult<ClusterTrace>(number, [](ClusterTrace trace, auto& answer, Bytes& payload) {
                          ToProto(trace, answer.mutable_trace());
                          payload = Bytes::FromString(std::move(trace.perfetto_json));
                        }));
}

void ServedSession::Profile(uint64_t number, const ::pathways::v1::ProfileRequest& request) {
  using ::pathways::v1::ProfileRequest;
  if (client_.observer) {  // it has nothing of its own to record
    const absl::Status status = MustBeOperator("record what all clients do; a program records itself by jax.profiler.trace");
    if (!status.ok()) return Answer(number, status, nullptr);
  }
  switch (request.kind_case()) {
    case ProfileRequest::kStart: {
      ProfileOptions options;
      options.everything = client_.caller.is_operator();
      options.merged = request.start().merged();
      options.max_bytes = request.start().max_bytes();
      return cluster_->StartProfile(id(), options, AnswerStatus(number));
    }
    case ProfileRequest::kStop:
      return cluster_->StopProfile(id(),
                                   AnswerResult<ClusterProfile>(number, [](ClusterProfile profile, auto& answer, Bytes& payload) {
                                     ToProto(profile, answer.mutable_profile());
                                     payload = Bytes::FromString(std::move(profile.trace.perfetto_json));
                                   }));
    case ProfileRequest::kRead:
      return cluster_->ReadProfile(
          id(), request.read().host(), request.read().offset(),
          AnswerResult<Bytes>(number, [](Bytes bytes, auto&, Bytes& payload) { payload = std::move(bytes); }));
    case ProfileRequest::kDrop:
      cluster_->DropProfile(id());
      return Answer(number, absl::OkStatus(), nullptr);
    case ProfileRequest::KIND_NOT_SET:
      return Answer(number, absl::InvalidArgumentError("a request about a profile starts, stops, reads or drops it"), nullptr);
  }
}

void ServedSession::DrainHost(uint64_t number, const ::pathways::v1::DrainHost& request) {
  if (absl::Status status = MustBeOperator("drain a host"); !status.ok()) return Answer(number, status, nullptr);
  cluster_->DrainHost(request.host(), request.undo(),
                      AnswerResult<DrainReport>(number, [](const DrainReport& report, auto& answer, Bytes&) {
                        ToProto(report, answer.mutable_drain());
                      }));
}

void ServedSession::Suspend(uint64_t number, const ::pathways::v1::SuspendSession& request) {
  if (absl::Status status = MayTouch(SessionId(request.session()), request.resume() ? "resume" : "suspend"); !status.ok())
    return Answer(number, status, nullptr);
  cluster_->SuspendClient(SessionId(request.session()), request.resume(),
                          AnswerResult<SuspendReport>(number, [](const SuspendReport& report, auto& answer, Bytes&) {
                            answer.mutable_suspend()->set_arrays(report.arrays);
                            answer.mutable_suspend()->set_bytes(report.bytes);
                          }));
}

absl::Status ServedSession::MustBeOperator(absl::string_view what) const {
  const identity::Caller& caller = client_.caller;
  if (caller.is_operator()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("'", caller.user, "' has the role of a ", identity::RoleName(caller.role),
                                                  ", and only an operator may ", what));
}

absl::Status ServedSession::MayTouch(SessionId session, absl::string_view what) {
  if (session == id() || client_.caller.is_operator() || owner_.same_user(session)) return absl::OkStatus();
  return MustBeOperator(absl::StrCat(what, " a session of somebody else"));
}

void ServedSession::AnswerText(uint64_t number, absl::StatusOr<std::string> text) {
  Answer(number, text.status(), [&](auto&, Bytes& payload) { payload = Bytes::FromString(*std::move(text)); });
}

void ServedSession::AskTokens(uint64_t number, const ::pathways::v1::TokenQuestion& question) {
  if (absl::Status status = MustBeOperator("make, list and revoke tokens"); !status.ok()) return Answer(number, status, nullptr);
  AnswerText(number, owner_.on_tokens(question));
}

void ServedSession::AskQuotas(uint64_t number, const ::pathways::v1::QuotaQuestion& question) {
  if (question.has_change()) {
    if (absl::Status status = MustBeOperator("change quotas"); !status.ok()) return Answer(number, status, nullptr);
  } else if (client_.caller.role == identity::Role::kWorker) {  // it computes nothing, so it has none
    if (absl::Status status = MustBeOperator("see quotas of others"); !status.ok()) return Answer(number, status, nullptr);
  }
  AnswerText(number, owner_.on_quotas(question));
}

void ServedSession::OnSliceMoved(const SliceState& slice) {
  ::pathways::v1::SessionEvent event;
  ToProto(slice, event.mutable_slice());
  Tell(std::move(event));
}

void ServedSession::OnNodeCall(NodeCall call, ResultCallback<std::vector<LaneResult>> done) {
  ::pathways::v1::SessionEvent event;
  auto& message = *event.mutable_host_call();
  message.set_call(next_call_);
  message.set_callback(call.callback);
  for (const NodeCall::Operand& operand : call.operands) {
    auto& described = *message.add_operands();
    described.set_array(operand.array);
    described.set_dtype(static_cast<int>(operand.dtype));
    described.mutable_dims()->Add(operand.dims.begin(), operand.dims.end());
  }
  calls_.emplace(next_call_++, std::move(done));
  Tell(std::move(event));
}

absl::Status ServedSession::TakeHostCallReply(const ::pathways::v1::HostCallReply& reply) {
  for (const auto& result : reply.results()) {
    if ((result.buffer() == 0) != (result.bytes() == 0))
      return absl::InvalidArgumentError("a result of a host call has a buffer or bytes alone");
  }
  auto call = calls_.extract(reply.call());
  if (call.empty())
    return absl::InvalidArgumentError(absl::StrCat("it replies to host call ", reply.call(), ", which was not made"));
  const absl::Status status = StatusFrom(reply.status());
  std::vector<LaneResult> results;
  for (const auto& result : reply.results()) results.push_back({result.buffer(), result.bytes()});
  if (status.ok())
    std::move(call.mapped())(std::move(results));
  else
    std::move(call.mapped())(status);
  return absl::OkStatus();
}

}  // namespace pw::session
