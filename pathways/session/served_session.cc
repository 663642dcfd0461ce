#include "pathways/session/served_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/frames.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using ::pathways::v1::SessionEvent;
using ::pathways::v1::SessionRequest;

// The client is told when so many requests are settled.
constexpr size_t kUntoldSettled = 64;

}  // namespace

ServedSession::ServedSession(Cluster* cluster, ProgramStore* programs, std::shared_ptr<Session> session, Client client,
                             Owner owner)
    : cluster_(cluster), programs_(programs), client_(std::move(client)), owner_(std::move(owner)), session_(std::move(session)) {
  if (client_.restorable && session_->restoration() != nullptr) session_->restoration()->AwaitClient();
}

ServedSession::~ServedSession() {
  for (auto& [call, done] : std::exchange(calls_, {}))
    std::move(done)(absl::UnavailableError("the client that was to run a Python function has gone"));
}

absl::Status ServedSession::Take(uint64_t first, google::protobuf::RepeatedPtrField<SessionRequest> requests,
                                 std::vector<Bytes> payloads) {
  PW_ASSIGN_OR_RETURN(const size_t known, stream_.Receive(first, requests.size()));
  const auto self = shared_from_this();  // a request may break the session, and its owner drop it
  for (size_t i = known; i < static_cast<size_t>(requests.size()); ++i)
    Run({first + i, std::move(requests[static_cast<int>(i)]), std::move(payloads[i])});
  return absl::OkStatus();
}

void ServedSession::Run(Request request) {
  if (broken_) return;
  if (held_.empty() && !must_hold()) {
    const absl::Status status = CarryOut(request);
    if (status.ok()) return;
    return Break(request, status);
  }
  if (held_bytes_ > 2 * kRequestWindowBytes)  // a client's last frame may pass the window, and may hold a large request
    return Break(request, absl::ResourceExhaustedError("the client has sent too much without an acknowledgement"));
  held_bytes_ += request.size();
  held_.push_back(std::move(request));
  AwaitResumption();
}

void ServedSession::AwaitResumption() {
  if (awaits_resumption_ || !session_->suspended()) return;
  awaits_resumption_ = true;
  session_->WhenResumed([weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->awaits_resumption_ = false;
    self->RunHeld();
  });
}

void ServedSession::RunHeld() {
  if (held_.empty() || must_hold()) return;
  held_bytes_ = 0;
  for (Request& request : std::exchange(held_, {})) Run(std::move(request));
  owner_.on_resumed();
}

absl::Status ServedSession::Acknowledge(uint64_t number) {
  PW_RETURN_IF_ERROR(stream_.Acknowledge(number));
  while (!unacknowledged_.empty() && unacknowledged_.front().first <= number) unacknowledged_.pop_front();
  const auto self = shared_from_this();  // a request may break the session, and its owner drop it
  if (held_.empty()) return absl::OkStatus();
  AwaitResumption();  // a session may be suspended while requests wait for events to be acknowledged
  RunHeld();
  return absl::OkStatus();
}

void ServedSession::Break(const Request& request, const absl::Status& status) {
  broken_ = true;
  owner_.on_broken(absl::Status(status.code(), absl::StrCat("request ", request.number, ": ", status.message())));
}

size_t ServedSession::unsettled() const {
  return client_.restorable && session_->restoration() != nullptr ? session_->restoration()->unsettled() : 0;
}

void ServedSession::TellSettled(bool all) {
  Restoration* const restoration = client_.restorable ? session_->restoration() : nullptr;
  if (restoration == nullptr) return;
  for (auto made = to_name_.begin(); made != to_name_.end(); ++made) {
    if (made->second.hold == nullptr) continue;
    if (restoration->done_up_to() + 1 < made->first) break;
    made->second.hold = nullptr;
  }
  if (restoration->untold() < (all ? 1 : kUntoldSettled)) return;
  SettledNews news = restoration->TakeSettled();
  SessionEvent event;
  auto& settled = *event.mutable_settled();
  settled.mutable_ranges()->Add(news.ranges.begin(), news.ranges.end());
  for (size_t i = 0; i + 1 < news.ranges.size(); i += 2) {
    const auto first = to_name_.lower_bound(news.ranges[i]), end = to_name_.upper_bound(news.ranges[i + 1]);
    for (auto made = first; made != end; ++made) {
      for (const auto& [array, name] : made->second.names) {
        settled.add_names(array);
        settled.add_names(name);
      }
    }
    to_name_.erase(first, end);
  }
  Tell(std::move(event));
  KeepUntilAcknowledged(std::move(news.known));
}

void ServedSession::KeepUntilAcknowledged(std::shared_ptr<void> hold) {
  unacknowledged_.emplace_back(stream_.last_appended(), std::move(hold));
}

absl::Status ServedSession::CarryOut(Request& request) {
  session_->BeginRequest(request.number);
  const absl::Status status = CarryOutNow(request);
  if (client_.restorable) NoteResults(request);
  session_->EndRequest();
  return status;
}

void ServedSession::NoteResults(uint64_t number, const std::vector<Handle>& results) {
  ToName& made = to_name_[number];
  made.hold = session_->HoldRequest(number);
  for (Handle result : results) {
    const std::optional<uint64_t> name =
        session_->restoration() == nullptr ? std::nullopt : session_->restoration()->NameOf(result);
    if (name.has_value()) made.names.emplace_back(result, *name);
  }
}

void ServedSession::NoteResults(const Request& request) {
  using Kind = SessionRequest::KindCase;
  const SessionRequest& message = request.message;
  const auto note = [&](const ::pathways::v1::Rearrange& made) {
    NoteResults(request.number, {made.results().begin(), made.results().end()});
  };
  switch (message.kind_case()) {
    case Kind::kAssemble:
      return note(message.assemble());
    case Kind::kDisassemble:
      return note(message.disassemble());
    case Kind::kReplicatedShard:
      return note(message.replicated_shard());
    case Kind::kCopy:
      return note(message.copy());
    case Kind::kReshard:
      return note(message.reshard());
    case Kind::kRemap:
      return note(message.remap());
    case Kind::kBitcast:
      return note(message.bitcast());
    case Kind::kExecute: {
      const auto& results = message.execute().results();
      if (many_nodes_.contains(message.execute().executable())) NoteResults(request.number, {results.begin(), results.end()});
      return;
    }
    case Kind::kLoad: {
      std::vector<Handle> results;
      for (const auto& array : message.load().arrays()) results.push_back(array.result());
      return NoteResults(request.number, results);
    }
    default:
      return;
  }
}

absl::Status ServedSession::CarryOutNow(Request& request) {
  using Kind = SessionRequest::KindCase;
  const Kind kind = request.message.kind_case();
  if (kind == Kind::KIND_NOT_SET)
    return absl::UnimplementedError("it is of a kind that this controller does not know: the client is newer");
  if (client_.caller.role == identity::Role::kWorker && kind != Kind::kStatus)
    return absl::PermissionDeniedError("the client's token is that of a worker, which may join and ask for the status");
  if (client_.observer && kind < Kind::kAddSlice)
    return absl::PermissionDeniedError("this session is an observer's, which has no arrays and computes nothing");
  if (kind < Kind::kAwaitReady) return CarryOutOnArrays(request);
  if (kind < Kind::kAddSlice) return CarryOutOnPrograms(request);
  return CarryOutOnCluster(request);
}

void ServedSession::Tell(SessionEvent event, std::vector<Bytes> payload) {
  const bool first = !stream_.has_unsent();
  stream_.Append(Pack(std::move(event), std::move(payload)));
  if (first) owner_.on_unsent();
}

void ServedSession::Answer(uint64_t number, const absl::Status& status, Fill fill, std::shared_ptr<void> hold) {
  SessionEvent event;
  auto& answer = *event.mutable_answer();
  answer.set_request(number);
  Bytes payload;
  if (!status.ok()) {
    ToProto(status, answer.mutable_status());
    answer.set_newer_than_runtime(status.GetPayload(kNewerThanRuntime).has_value());
  } else if (fill != nullptr) {
    std::move(fill)(answer, payload);
  }
  Tell(std::move(event), payload.empty() ? std::vector<Bytes>() : std::vector<Bytes>{std::move(payload)});
  if (hold == nullptr) hold = session_->HoldRequest(number);
  if (hold != nullptr) KeepUntilAcknowledged(std::move(hold));
}

StatusCallback ServedSession::AnswerStatus(uint64_t number) {
  return [weak = weak_from_this(), number, hold = session_->HoldRequest(number)](absl::Status status) mutable {
    if (auto self = weak.lock()) self->Answer(number, status, nullptr, std::move(hold));
  };
}

}  // namespace pw::session
