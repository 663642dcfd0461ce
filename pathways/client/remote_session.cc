#include "pathways/client/remote_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::Answer;
using ::pathways::v1::SessionEvent;
using ::pathways::v1::SessionRequest;
using session::ResultCallback;
using session::StatusCallback;

// Handles that this end picks for a front door, below those that a controller would pick.
constexpr session::Handle kFirstHandle = session::kFirstServerHandle / 2;
// Larger host buffers wait until the controller has room for them.
constexpr int64_t kAnnouncedBytes = 64 << 10;

absl::Status UnknownBuffer(session::Handle buffer) {
  return absl::NotFoundError(absl::StrCat("host buffer ", buffer, " is not known, and no fetch will fill it"));
}

}  // namespace

std::shared_ptr<RemoteSession> RemoteSession::Open(Link::Options options, const Link::Environment& environment,
                                                   StatusCallback opened) {
  std::shared_ptr<RemoteSession> session(new RemoteSession(environment, std::move(opened)));
  session->link_ = Link::Create(std::move(options), environment, session.get());
  session->link_->Open();
  return session;
}

RemoteSession::RemoteSession(const Link::Environment& environment, StatusCallback opened)
    : environment_(environment), opened_(std::move(opened)), next_handle_(kFirstHandle) {}

RemoteSession::~RemoteSession() {
  link_->Close();
  OnEnded(absl::CancelledError("the session has ended"));
}

void RemoteSession::Post(absl::AnyInvocable<void() &&> task) { environment_.strand->Post(std::move(task)); }

void RemoteSession::OnWelcome(const ::pathways::v1::SessionWelcome& welcome) {
  welcome_.id = SessionId(welcome.session());
  welcome_.cluster = std::make_shared<const session::ClusterInfo>(session::ClusterFrom(welcome.cluster()));
  welcome_.spares = std::make_shared<const session::SpareDevices>(session::SparesFrom(welcome.spares()));
  std::exchange(opened_, nullptr)(absl::OkStatus());
}

void RemoteSession::OnEvent(SessionEvent event, Bytes payload) {
  if (event.has_host_call()) return OnHostCall(event.host_call(), payload);
  if (!event.has_answer()) return;  // of a kind that a newer controller tells
  auto asked = asked_.find(event.answer().request());
  if (asked == asked_.end()) return;
  AnswerCallback done = std::move(asked->second);
  asked_.erase(asked);
  absl::Status status = session::StatusFrom(event.answer().status());
  if (event.answer().newer_than_runtime()) status.SetPayload(session::kNewerThanRuntime, absl::Cord());
  if (status.ok())
    std::move(done)(std::move(*event.mutable_answer()), std::move(payload));
  else
    std::move(done)(status, Bytes());
}

void RemoteSession::OnEnded(const absl::Status& status) {
  if (!ended_.ok()) return;
  ended_ = status.ok() ? absl::UnavailableError("the controller has ended this session") : status;
  for (auto& [number, done] : std::exchange(asked_, {}))
    Post([done = std::move(done), status = ended_]() mutable { std::move(done)(status, Bytes()); });
  for (auto& [buffer, fetched] : std::exchange(fetched_, {})) {
    for (auto& done : fetched.waiting) Post([done = std::move(done), status = ended_]() mutable { std::move(done)(status); });
  }
  if (opened_ != nullptr) Post([opened = std::exchange(opened_, nullptr), status = ended_]() mutable { std::move(opened)(status); });
}

void RemoteSession::Ask(SessionRequest request, AnswerCallback done, std::vector<Bytes> payload) {
  if (!ended_.ok()) return Post([done = std::move(done), status = ended_]() mutable { std::move(done)(status, Bytes()); });
  asked_.emplace(link_->Send(std::move(request), std::move(payload)), std::move(done));
}

void RemoteSession::AskStatus(SessionRequest request, StatusCallback done) {
  Ask(std::move(request),
      [done = std::move(done)](absl::StatusOr<Answer> answer, Bytes) mutable { std::move(done)(answer.status()); });
}

void RemoteSession::OnHostCall(const ::pathways::v1::SessionHostCall& proto, const Bytes& payload) {
  ResultCallback<std::vector<Bytes>> done = [this, alive = std::weak_ptr<bool>(alive_),
                                             id = proto.call()](absl::StatusOr<std::vector<Bytes>> results) {
    if (alive.expired()) return;
    SessionRequest request;
    auto& reply = *request.mutable_host_call_reply();
    reply.set_call(id);
    if (!results.ok()) {
      session::ToProto(results.status(), reply.mutable_status());
      results = std::vector<Bytes>();
    }
    for (const Bytes& result : *results) reply.add_result_bytes(result.size());
    link_->Send(std::move(request), *std::move(results));
  };
  session::HostCall call;
  call.callback = proto.callback();
  size_t offset = 0;
  for (const auto& operand : proto.operands()) {
    auto dtype = buffers::DTypeFromNumber(operand.dtype());
    if (!dtype.ok()) return std::move(done)(dtype.status());
    if (operand.bytes() > payload.size() - offset)
      return std::move(done)(absl::InternalError("a host call announces more operands than its payload holds"));
    call.operands.push_back({*dtype, buffers::Dims(operand.dims().begin(), operand.dims().end()), std::nullopt});
    call.data.push_back(operand.bytes() == 0 ? Bytes() : payload.Slice(offset, operand.bytes()));
    offset += operand.bytes();
  }
  if (host_calls_ == nullptr) {
    return std::move(done)(
        absl::FailedPreconditionError("a computation calls a Python function, but its client runs none: host callbacks need the "
                                      "pathways package in the client's process"));
  }
  const auto keep = host_calls_;  // it may end its session
  keep->OnHostCall(std::move(call), std::move(done));
}

void RemoteSession::AnnounceHostBuffer(Handle handle, int64_t bytes, StatusCallback admitted) {
  if (bytes <= kAnnouncedBytes) return Post([admitted = std::move(admitted)]() mutable { std::move(admitted)(absl::OkStatus()); });
  SessionRequest request;
  request.mutable_announce()->set_buffer(handle);
  request.mutable_announce()->set_bytes(bytes);
  AskStatus(std::move(request), std::move(admitted));
}

void RemoteSession::ForgetHostBuffer(Handle handle) {
  SessionRequest request;
  request.mutable_host_buffer()->set_buffer(handle);
  request.mutable_host_buffer()->set_forgotten(true);
  link_->Send(std::move(request));
}

void RemoteSession::FailHostBuffer(Handle handle, absl::Status error) {
  SessionRequest request;
  request.mutable_host_buffer()->set_buffer(handle);
  session::ToProto(error, request.mutable_host_buffer()->mutable_error());
  link_->Send(std::move(request));
}

absl::Status RemoteSession::StoreHostBuffer(Handle handle, Bytes data) {
  SessionRequest request;
  request.mutable_host_buffer()->set_buffer(handle);
  link_->Send(std::move(request), {std::move(data)});
  return absl::OkStatus();
}

void RemoteSession::CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims> byte_strides,
                                     StatusCallback done) {
  if (host_buffer == 0 || !fetched_.try_emplace(host_buffer).second) {
    const auto status = absl::AlreadyExistsError(absl::StrCat("host buffer ", host_buffer, " exists already, or names nothing"));
    return Post([done = std::move(done), status]() mutable { std::move(done)(status); });
  }
  SessionRequest request;
  auto& fetch = *request.mutable_fetch();
  fetch.set_array(array);
  fetch.set_strided(byte_strides.has_value());
  if (byte_strides.has_value()) fetch.mutable_byte_strides()->Add(byte_strides->begin(), byte_strides->end());
  Ask(std::move(request), [this, alive = std::weak_ptr<bool>(alive_), host_buffer, done = std::move(done)](
                              absl::StatusOr<Answer> answer, Bytes payload) mutable {
    if (alive.expired()) return std::move(done)(answer.status());
    if (auto it = fetched_.find(host_buffer); it != fetched_.end()) {
      const absl::StatusOr<Bytes> data = answer.ok() ? absl::StatusOr<Bytes>(std::move(payload)) : answer.status();
      auto waiting = std::exchange(it->second.waiting, {});
      if (data.ok() && !it->second.dropped)
        it->second.data = data;
      else
        fetched_.erase(it);
      for (auto& lookup : waiting) std::move(lookup)(data);
    }
    std::move(done)(answer.status());
  });
}

void RemoteSession::LookupHostBuffer(Handle handle, ResultCallback<Bytes> done) {
  auto it = fetched_.find(handle);
  if (it != fetched_.end() && !it->second.data.has_value()) return it->second.waiting.push_back(std::move(done));
  absl::StatusOr<Bytes> data = it == fetched_.end() ? absl::StatusOr<Bytes>(UnknownBuffer(handle)) : *it->second.data;
  Post([done = std::move(done), data = std::move(data)]() mutable { std::move(done)(std::move(data)); });
}

absl::Status RemoteSession::DeleteHostBuffer(Handle handle) {
  auto it = fetched_.find(handle);
  if (it == fetched_.end()) return UnknownBuffer(handle);
  if (it->second.data.has_value())
    fetched_.erase(it);
  else
    it->second.dropped = true;  // those who wait for it get it
  return absl::OkStatus();
}

}  // namespace pw::client
