#include "pathways/client/remote_session.h"

#include <utility>

#include "pathways/base/request_name.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::Answer;
using ::pathways::v1::SessionEvent;
using ::pathways::v1::SessionRequest;
using session::ResultCallback;
using session::StatusCallback;

// NewHandle counts from here, below the handles that a controller would choose.
constexpr session::Handle kFirstHandle = session::kFirstServerHandle / 2;

}  // namespace

std::shared_ptr<RemoteSession> RemoteSession::Open(Link::Options options, const Link::Environment& environment,
                                                   StatusCallback opened, const HostBuffers::Limits& limits) {
  const Lanes::Options lanes{limits, options.patience};
  std::shared_ptr<RemoteSession> session(new RemoteSession(lanes, environment, std::move(opened)));
  session->link_ = Link::Create(std::move(options), environment, session.get());
  session->link_->Open();
  return session;
}

RemoteSession::RemoteSession(const Lanes::Options& lanes, const Link::Environment& environment, StatusCallback opened)
    : environment_(environment),
      opened_(std::move(opened)),
      next_handle_(kFirstHandle),
      fetched_(environment.strand),
      node_calls_(OwnerOfNodeCalls()),
      in_frame_bytes_(lanes.buffers.in_frame),
      lanes_(Lanes::Create(lanes, environment, OwnerOfLanes())) {}

Lanes::Owner RemoteSession::OwnerOfLanes() {
  Lanes::Owner owner;
  owner.send_in_frame = [this, alive = std::weak_ptr<bool>(alive_)](Handle buffer, absl::StatusOr<Bytes> data) {
    if (alive.expired() || !ended_.ok()) return;
    SessionRequest request;
    request.mutable_host_buffer()->set_buffer(buffer);
    uint64_t number = 0;
    if (data.ok()) {
      number = link_->Send(std::move(request), {*std::move(data)});
    } else {
      session::ToProto(data.status(), request.mutable_host_buffer()->mutable_error());
      number = link_->Send(std::move(request));
    }
    if (link_->restorable()) link_->kept().NoteCarrier(number, buffer);
  };
  owner.away = [this, alive = std::weak_ptr<bool>(alive_)] { return !alive.expired() && ended_.ok() && link_->away(); };
  owner.on_lost = [this, alive = std::weak_ptr<bool>(alive_)](HostId host, const absl::Status& status) {
    if (alive.expired() || !ended_.ok()) return;
    SessionRequest request;
    request.mutable_lane_lost()->set_host(host.v);
    session::ToProto(status, request.mutable_lane_lost()->mutable_status());
    link_->Send(std::move(request));
  };
  return owner;
}

NodeCalls::Owner RemoteSession::OwnerOfNodeCalls() {
  NodeCalls::Owner owner;
  owner.fetch = [this](Handle array, std::optional<int64_t> bytes, ResultCallback<Bytes> done) {
    FetchBytes(array, std::nullopt, 0, bytes, std::move(done));
  };
  owner.offer = [this](Bytes data) {
    const Handle buffer = NewHandle();
    lanes_->buffers().Offer(buffer, std::move(data));
    return buffer;
  };
  owner.send = [this](SessionRequest request) { link_->Send(std::move(request)); };
  return owner;
}

RemoteSession::~RemoteSession() { End(absl::CancelledError("the session has ended")); }

void RemoteSession::End(const absl::Status& why) {
  link_->Close();
  OnEnded(why);
}

void RemoteSession::Post(absl::AnyInvocable<void() &&> task) { environment_.strand->Post(std::move(task)); }

void RemoteSession::OnWelcome(const ::pathways::v1::SessionWelcome& welcome) {
  welcome_.id = SessionId(welcome.session());
  welcome_.cluster = std::make_shared<const session::ClusterInfo>(session::ClusterFrom(welcome.cluster()));
  welcome_.spares = std::make_shared<const session::SpareDevices>(session::SparesFrom(welcome.spares()));
  slices_.SetDevices(*welcome_.spares);
  std::exchange(opened_, nullptr)(absl::OkStatus());
}

void RemoteSession::OnEvent(SessionEvent event, Bytes payload) {
  if (event.has_settled()) return OnSettled(event.settled());
  if (event.has_host_call()) return node_calls_.OnCall(event.host_call());
  if (event.has_slice()) return slices_.Update(event.slice());
  if (event.has_lane()) return lanes_->OnLane(welcome_.id.v, event.lane());
  if (event.has_lane_closed()) return lanes_->OnLaneClosed(event.lane_closed());
  if (event.has_buffers_done()) {
    for (uint64_t buffer : event.buffers_done().buffers()) lanes_->buffers().OnDone(buffer);
    return;
  }
  if (!event.has_answer()) return;  // an event of a newer controller
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

uint64_t RemoteSession::NameOf(uint64_t request, uint64_t result) const {
  if (request == 0) return 0;
  return RequestName{welcome_.id, request, result, false}.Number().value_or(0);
}

void RemoteSession::OnSettled(const ::pathways::v1::SettledRequests& settled) {
  if (!link_->restorable()) {  // nothing is kept for another controller
    arrays_.OnSettled(UINT64_MAX);
    slices_.OnSettled(UINT64_MAX);
    return compiled_.OnSettled(UINT64_MAX);
  }
  KeptRequests& kept = link_->kept();
  for (int i = 0; i + 1 < settled.names_size(); i += 2) arrays_.SetName(settled.names(i), settled.names(i + 1));
  kept.Settle({settled.ranges().data(), static_cast<size_t>(settled.ranges_size())});
  arrays_.OnSettled(kept.settled_up_to());
  compiled_.OnSettled(kept.settled_up_to());
  slices_.OnSettled(kept.settled_up_to());
}

std::string RemoteSession::Obstacle() {
  if (link_->kept().lost() > 0) return "requests with too many bytes were under way to be kept here";
  if (compiled_.lost() > 0) return "it has compiled programs of too many bytes to be kept here";
  return "";
}

std::vector<RestorePart> RemoteSession::OnRestoreWanted() {
  return RestorePartsOf(arrays_, compiled_, slices_, link_->kept(), link_->stream(), link_->last_begun(),
                        [this](uint64_t number) { return asked_.contains(number); });
}

void RemoteSession::OnRestored() { lanes_->Restart(); }

void RemoteSession::OnEnded(const absl::Status& status) {
  if (!ended_.ok()) return;
  ended_ = status.ok() ? absl::UnavailableError("the controller has ended this session") : status;
  for (auto& [number, done] : std::exchange(asked_, {}))
    Post([done = std::move(done), status = ended_]() mutable { std::move(done)(status, Bytes()); });
  OnAcknowledged();  // nothing is held back any more
  fetched_.End(ended_);
  node_calls_.End();
  Post([lanes = lanes_, status = ended_] { lanes->End(status); });
  if (opened_ != nullptr)
    Post([opened = std::exchange(opened_, nullptr), status = ended_]() mutable { std::move(opened)(status); });
}

void RemoteSession::WhenResumed(absl::AnyInvocable<void() &&> resumed) {
  if (!suspended()) return Post(std::move(resumed));
  when_resumed_.push_back(std::move(resumed));
}

void RemoteSession::OnAcknowledged() {
  if (suspended()) return;
  for (auto& resumed : std::exchange(when_resumed_, {})) Post(std::move(resumed));
}

uint64_t RemoteSession::Ask(SessionRequest request, AnswerCallback done, std::vector<Bytes> payload) {
  if (!ended_.ok()) {
    Post([done = std::move(done), status = ended_]() mutable { std::move(done)(status, Bytes()); });
    return 0;
  }
  if (request.has_add_slice() || request.has_await_slice()) done = NotingSlice(request, std::move(done));
  const SliceId released(request.release_slice());
  const uint64_t number = link_->Send(std::move(request), std::move(payload));
  if (released.v != 0) slices_.Release(released, number);
  asked_.emplace(number, std::move(done));
  return number;
}

AnswerCallback RemoteSession::NotingSlice(const SessionRequest& request, AnswerCallback done) {
  return [this, alive = std::weak_ptr<bool>(alive_), asked = request.add_slice(), adds = request.has_add_slice(),
          done = std::move(done)](absl::StatusOr<Answer> answer, Bytes payload) mutable {
    if (answer.ok() && answer->has_slice() && !alive.expired()) {
      if (adds)
        slices_.Add(asked, answer->slice());
      else
        slices_.Update(answer->slice());
    }
    std::move(done)(std::move(answer), std::move(payload));
  };
}

void RemoteSession::AskStatus(SessionRequest request, StatusCallback done) {
  Ask(std::move(request), ReadingStatus(std::move(done)));
}

void RemoteSession::AnnounceHostBuffer(Handle handle, int64_t bytes, StatusCallback admitted) {
  lanes_->buffers().Announce(handle, bytes,
                             [strand = environment_.strand, admitted = std::move(admitted)](absl::Status status) mutable {
                               strand->Post([admitted = std::move(admitted), status]() mutable { std::move(admitted)(status); });
                             });
}

void RemoteSession::ForgetHostBuffer(Handle handle) { lanes_->buffers().Forget(handle); }

void RemoteSession::FailHostBuffer(Handle handle, absl::Status error) { lanes_->buffers().Store(handle, std::move(error)); }

absl::Status RemoteSession::StoreHostBuffer(Handle handle, Bytes data) {
  array_bytes_ += static_cast<int64_t>(data.size());
  lanes_->buffers().Store(handle, std::move(data));
  return absl::OkStatus();
}

std::optional<int64_t> RemoteSession::BytesToFetch(Handle array, const std::optional<buffers::Dims>& byte_strides) const {
  const ArrayTable::SpecPtr spec = arrays_.Find(array);
  if (spec == nullptr) return std::nullopt;
  const auto dims = spec->sharding.ShardDims(spec->dims, 0);
  if (!dims.ok()) return std::nullopt;
  const auto bytes = HostBuffers::BytesOf({spec->dtype, *dims, byte_strides});
  return bytes.ok() ? std::optional(*bytes) : std::nullopt;
}

void RemoteSession::CopyToHostBuffer(Handle array, Handle host_buffer, std::optional<buffers::Dims> byte_strides,
                                     StatusCallback done) {
  if (const absl::Status status = fetched_.Begin(host_buffer); !status.ok())
    return Post([done = std::move(done), status]() mutable { std::move(done)(status); });
  const std::optional<int64_t> bytes = BytesToFetch(array, byte_strides);
  FetchBytes(
      array, byte_strides, in_frame_bytes_, bytes,
      [this, alive = std::weak_ptr<bool>(alive_), host_buffer, done = std::move(done)](absl::StatusOr<Bytes> data) mutable {
        if (!alive.expired()) {
          array_bytes_ += data.ok() ? static_cast<int64_t>(data->size()) : 0;
          fetched_.Fill(host_buffer, data);
        }
        std::move(done)(data.status());
      });
}

void RemoteSession::FetchBytes(Handle array, const std::optional<buffers::Dims>& byte_strides, int64_t in_frame,
                               std::optional<int64_t> bytes, ResultCallback<Bytes> done) {
  SessionRequest request;
  auto& fetch = *request.mutable_fetch();
  fetch.set_array(array);
  fetch.set_strided(byte_strides.has_value());
  if (byte_strides.has_value()) fetch.mutable_byte_strides()->Add(byte_strides->begin(), byte_strides->end());
  fetch.set_by_lane_above(static_cast<uint64_t>(in_frame));
  auto number = std::make_shared<uint64_t>(0);
  auto on_answer = [lanes = lanes_, number, done = std::move(done)](absl::StatusOr<Answer> answer, Bytes payload) mutable {
    if (answer.ok() && answer->has_on_lane_of()) return lanes->Finish(*number, HostId(answer->on_lane_of()), std::move(done));
    lanes->Drop(*number);
    std::move(done)(answer.ok() ? absl::StatusOr<Bytes>(std::move(payload)) : answer.status());
  };
  *number = Ask(std::move(request), std::move(on_answer));
  if (*number != 0) lanes_->Expect(*number, bytes);
}

void RemoteSession::LookupHostBuffer(Handle handle, ResultCallback<Bytes> done) { fetched_.Lookup(handle, std::move(done)); }

absl::Status RemoteSession::DeleteHostBuffer(Handle handle) { return fetched_.Delete(handle); }

}  // namespace pw::client
