#include "pathways/client/lanes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/lanes/begun_fetches.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using lanes::LaneEnd;
using ::pathways::v1::LaneMessage;

constexpr absl::Duration kRetryPause = absl::Milliseconds(50);  // between two attempts to connect
constexpr absl::Duration kLateRetryPause = absl::Seconds(1);    // once patience is over

}  // namespace

std::shared_ptr<Lanes> Lanes::Create(const Options& options, const Link::Environment& environment, Owner owner) {
  return std::shared_ptr<Lanes>(new Lanes(options, environment, std::move(owner)));
}

Lanes::Lanes(const Options& options, const Link::Environment& environment, Owner owner)
    : options_(options), environment_(environment), owner_(std::move(owner)), buffers_(options.buffers, WaysOfBuffers()) {}

HostBuffers::Ways Lanes::WaysOfBuffers() {
  HostBuffers::Ways ways;
  ways.in_frame = [this](session::Handle buffer, absl::StatusOr<Bytes> data) { owner_.send_in_frame(buffer, std::move(data)); };
  ways.on_lane = [this](HostId host, session::Handle buffer, const Bytes& data, size_t offset) {
    auto it = hosts_.find(host);
    if (it == hosts_.end() || !it->second.welcomed) return;
    it->second.sender.Add(buffer, data, offset);
    it->second.sender.Pump(*it->second.end);
  };
  ways.failed = [this](HostId host, session::Handle buffer, const absl::Status& error) {
    auto it = hosts_.find(host);
    if (it == hosts_.end() || !it->second.welcomed) return;
    LaneMessage message;
    message.mutable_failed()->set_buffer(buffer);
    session::ToProto(error, message.mutable_failed()->mutable_status());
    it->second.end->Send(message);
  };
  ways.done = [this](session::Handle buffer) {
    for (auto& [id, host] : hosts_) host.sender.Drop(buffer);
  };
  return ways;
}

void Lanes::OnLane(uint64_t session, const ::pathways::v1::SessionLane& offer) {
  const HostId id(offer.host());
  auto [it, is_new] = hosts_.try_emplace(id);
  if (!is_new) return;
  it->second.id = id;
  it->second.session = session;
  it->second.offer = offer;
  it->second.unreachable_since = environment_.clock->Now();
  Connect(id);
}

void Lanes::OnLaneClosed(const ::pathways::v1::LaneClosed& closed) {
  const HostId host(closed.host());
  const absl::Status status = session::StatusFrom(closed.status());
  if (auto it = hosts_.find(host); it != hosts_.end()) it->second.calls->LaneGone();
  closed_[host] = status.ok() ? absl::UnavailableError(absl::StrCat(ToString(host), " is lost")) : status;
  hosts_.erase(host);
  buffers_.OnLaneBroken(host);
  FailFetchesFrom(host, closed_[host]);
}

void Lanes::Connect(HostId id) {
  auto host = hosts_.find(id);
  if (host == hosts_.end() || host->second.end != nullptr) return;
  environment_.transport->Connect(
      host->second.offer.address(), std::min(options_.patience, host->second.attempts.Next()),
      [weak = weak_from_this(), strand = environment_.strand, id](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
        strand->Post([weak, id, connection = std::move(connection)]() mutable {
          if (auto self = weak.lock()) self->OnConnected(id, std::move(connection));
        });
      });
}

void Lanes::OnConnected(HostId id, absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  auto it = hosts_.find(id);
  if (it == hosts_.end() || !ended_.ok() || it->second.end != nullptr) return;
  Host& host = it->second;
  const absl::Status status = connection.ok() ? net::CheckServer(**connection, net::PeerProof::kWorker) : connection.status();
  if (!status.ok()) {
    host.last_error = status;
    return ConnectAgain(host);
  }
  auto post = [weak = weak_from_this(), strand = environment_.strand](absl::AnyInvocable<void(LaneEnd::Owner&)&&> task) {
    strand->Post([weak, task = std::move(task)]() mutable {
      if (auto self = weak.lock()) std::move(task)(*self);
    });
  };
  host.end = std::make_unique<LaneEnd>(next_lane_++, *std::move(connection), std::move(post));
  host.end->Open(receiver_.receive_buffers());
  host.end->Start();
  SayHello(host);
}

void Lanes::SayHello(Host& host) {
  LaneMessage message;
  auto& hello = *message.mutable_hello();
  hello.set_version(lanes::kVersion);
  hello.set_session(host.session);
  hello.set_key(host.offer.key());
  hello.set_shares_memory(!host.in_parts);
  std::vector<lanes::BegunFetch> begun;
  for (const auto& [name, fetch] : fetches_) {
    if (fetch.from == host.id && receiver_.received(name) > 0) begun.push_back({name, receiver_.received(name)});
  }
  for (const lanes::BegunFetch& fetch : lanes::ListBegun(std::move(begun), &hello)) receiver_.Rewind(fetch.name);
  host.end->Send(message);
}

// Called before any other message on the lane.
void Lanes::ConnectMemory(Host& host, const ::pathways::v1::LaneWelcome& welcome) {
  if (welcome.memory_socket().empty()) return;
  auto files = environment_.transport->ConnectForFiles(welcome.memory_socket(), welcome.memory_key());
  if (files.ok()) return host.end->ShareMemory(*std::move(files));
  LaneMessage message;
  message.mutable_no_memory();
  host.end->Send(message);
}

// Once patience is over, operations that wait for the host fail. Later ones get a new chance.
void Lanes::ConnectAgain(Host& host) {
  const absl::Time now = environment_.clock->Now();
  if (owner_.away()) host.unreachable_since = now;
  const bool lost = now - host.unreachable_since >= options_.patience;
  if (lost) {
    host.unreachable_since = now;
    const absl::Status status = absl::UnavailableError(absl::StrCat(
        "the client cannot connect to ", host.offer.name(), " at ", host.offer.address(), ": ", host.last_error.message(),
        ". Clients exchange large arrays with hosts directly: that address must be reachable from where they run"));
    FailFetchesFrom(host.id, status);
    owner_.on_lost(host.id, status);
  }
  environment_.timers->After(lost ? kLateRetryPause : kRetryPause, environment_.strand, [weak = weak_from_this(), id = host.id] {
    auto self = weak.lock();
    if (self != nullptr && self->ended_.ok()) self->Connect(id);
  });
}

Lanes::Host* Lanes::HostOf(LaneId lane) {
  for (auto& [id, host] : hosts_) {
    if (host.end != nullptr && host.end->id() == lane) return &host;
  }
  return nullptr;
}

void Lanes::OnLaneClosed(LaneId lane, const absl::Status& reason) {
  Host* host = HostOf(lane);
  if (host == nullptr) return;
  host->in_parts |= host->end->shares_memory();
  host->calls->LaneGone();
  host->end = nullptr;
  host->last_error = reason;
  host->sender.Clear();
  buffers_.OnLaneBroken(host->id);
  for (const auto& [name, fetch] : fetches_) {
    if (fetch.from == host->id) receiver_.Restart(name);
  }
  if (std::exchange(host->welcomed, false)) host->unreachable_since = environment_.clock->Now();
  if (ended_.ok()) ConnectAgain(*host);
}

void Lanes::OnLaneWritable(LaneId lane) {
  Host* host = HostOf(lane);
  if (host == nullptr || !host->welcomed) return;
  host->calls->Pump();
  host->sender.Pump(*host->end);
}

void Lanes::OnLaneMessage(LaneId lane, LaneMessage message, Bytes payload) {
  Host* host = HostOf(lane);
  if (host == nullptr || !ended_.ok()) return;
  const HostId id = host->id;
  const absl::Status status = Handle(*host, message, std::move(payload));
  if (status.ok()) return;
  auto it = hosts_.find(id);  // looked up again: Handle may have changed hosts_
  if (it != hosts_.end() && it->second.end != nullptr && it->second.end->id() == lane) it->second.end->Close(status);
}

absl::Status Lanes::Handle(Host& host, const LaneMessage& message, Bytes payload) {
  if (!host.welcomed && !message.has_welcome())
    return absl::InvalidArgumentError("a worker's first message on a lane must be a welcome");
  switch (message.kind_case()) {
    case LaneMessage::kWelcome:
      return OnWelcome(host, message.welcome());
    case LaneMessage::kWant:
      buffers_.OnWant(host.id, message.want().buffer(), message.want().offset(), message.want().total_bytes());
      return absl::OkStatus();
    case LaneMessage::kBytes:
      // A call may end its session, and with it the host's entry.
      if (message.bytes().has_call())
        return std::shared_ptr(host.calls)->OnBytes(message.bytes(), std::move(payload), host_calls_);
      return AddPart(host, message.bytes(), std::move(payload));
    case LaneMessage::kCall:
      return std::shared_ptr(host.calls)->OnCall(message.call(), payload, host_calls_, blocks_);
    case LaneMessage::kTaken:
      for (uint64_t call : message.taken().calls()) host.calls->OnTaken(call);
      return absl::OkStatus();
    case LaneMessage::kFailed: {
      const absl::Status status = session::StatusFrom(message.failed().status());
      Complete(message.failed().fetch(), status.ok() ? absl::UnavailableError("the host no longer has the array") : status);
      return absl::OkStatus();
    }
    default:
      return absl::InvalidArgumentError("a worker sent a kind of message that only clients send on lanes");
  }
}

absl::Status Lanes::OnWelcome(Host& host, const ::pathways::v1::LaneWelcome& welcome) {
  if (std::exchange(host.welcomed, true)) return absl::InvalidArgumentError("a worker must send only one welcome");
  host.attempts = {};
  ConnectMemory(host, welcome);
  host.calls->LaneOpened(host.end.get());
  return absl::OkStatus();
}

absl::Status Lanes::AddPart(Host& host, const ::pathways::v1::LaneBytes& bytes, Bytes payload) {
  const uint64_t name = bytes.fetch();
  auto it = fetches_.find(name);
  if (it == fetches_.end() || it->second.complete) {  // dropped here, or complete, which the host does not know
    SayTaken(host, name);
    return absl::OkStatus();
  }
  Fetch& fetch = it->second;
  if (fetch.from.value_or(host.id) != host.id)
    return absl::InvalidArgumentError("a worker sent bytes of an array that another host sends");
  fetch.from = host.id;
  if (!receiver_.expects(name)) PW_RETURN_IF_ERROR(Begin(fetch, name, static_cast<int64_t>(bytes.total_bytes())));
  if (fetch.complete) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const bool complete, receiver_.Add(name, bytes.offset(), bytes.total_bytes(), std::move(payload)));
  if (!complete) return absl::OkStatus();
  SayTaken(host, name);
  Complete(name, receiver_.Take(name));
  return absl::OkStatus();
}

absl::Status Lanes::Begin(Fetch& fetch, uint64_t name, int64_t bytes) {
  if (bytes <= 0 || fetch.bytes.value_or(bytes) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a worker sends an array of ", fetch.bytes.value_or(0), " bytes as one of ", bytes));
  }
  std::optional<AlignedBytes> memory = blocks_.Take(static_cast<size_t>(bytes));
  if (memory.has_value())
    receiver_.Expect(name, *std::move(memory));
  else
    Complete(name,
             absl::ResourceExhaustedError(absl::StrCat("the client's machine has no memory for an array of ", bytes, " bytes")));
  return absl::OkStatus();
}

void Lanes::SayTaken(Host& host, uint64_t fetch) {
  LaneMessage message;
  message.mutable_taken()->add_fetches(fetch);
  host.end->Send(message);
}

void Lanes::Expect(uint64_t name, std::optional<int64_t> bytes) {
  if (!ended_.ok()) return;
  Fetch& fetch = fetches_[name];
  fetch.bytes = bytes;
  // Takes memory for all bytes now, so that the socket writes them there from the first one. Pages come as they are written to.
  if (bytes.value_or(0) > options_.buffers.in_frame) Begin(fetch, name, *bytes).IgnoreError();
}

void Lanes::Drop(uint64_t fetch) {
  if (fetches_.erase(fetch) > 0) receiver_.Drop(fetch);
}

void Lanes::Finish(uint64_t name, HostId host, Done done) {
  if (!ended_.ok()) return std::move(done)(ended_);
  auto it = fetches_.find(name);
  if (it == fetches_.end()) return std::move(done)(absl::InternalError("an array came on a lane without a request"));
  Fetch& fetch = it->second;
  fetch.from = host;
  fetch.done = std::move(done);
  if (fetch.complete) return Complete(name, std::move(fetch.data));
  if (auto closed = closed_.find(host); closed != closed_.end()) return Complete(name, closed->second);
  if (!hosts_.contains(host))
    Complete(name, absl::InternalError("the controller announces an array on a lane that does not exist"));
}

void Lanes::Complete(uint64_t name, absl::StatusOr<Bytes> data) {
  auto it = fetches_.find(name);
  if (it == fetches_.end()) return;
  receiver_.Drop(name);
  it->second.complete = true;
  it->second.data = std::move(data);
  if (it->second.done == nullptr) return;
  Fetch fetch = std::move(it->second);
  fetches_.erase(it);
  std::move(fetch.done)(std::move(fetch.data));
}

void Lanes::FailFetchesFrom(HostId host, const absl::Status& status) {
  std::vector<uint64_t> failed;
  for (const auto& [name, fetch] : fetches_) {
    if (fetch.from == host && !fetch.complete) failed.push_back(name);
  }
  for (uint64_t name : failed) Complete(name, status);
}

void Lanes::Restart() {
  for (auto& [id, host] : hosts_) {
    host.calls->LaneGone();
    buffers_.OnLaneBroken(id);
  }
  hosts_.clear();
  closed_.clear();
  std::vector<uint64_t> lost;
  for (auto& [name, fetch] : fetches_) {
    receiver_.Drop(name);
    fetch.from.reset();
    fetch.complete = false;
    if (fetch.done != nullptr)
      lost.push_back(name);  // the controller before has answered, so this one is not asked
    else if (fetch.bytes.value_or(0) > options_.buffers.in_frame)
      Begin(fetch, name, *fetch.bytes).IgnoreError();
  }
  const absl::Status status = absl::UnavailableError(
      "the controller has ended while the bytes of this array were on their way from its host. The array is still there: fetch "
      "it again");
  for (uint64_t name : lost) Complete(name, status);
}

void Lanes::End(const absl::Status& status) {
  if (!ended_.ok()) return;
  ended_ = status.ok() ? absl::CancelledError("the session has ended") : status;
  for (auto& [id, host] : hosts_) host.calls->LaneGone();
  hosts_.clear();
  host_calls_ = nullptr;
  auto fetches = std::exchange(fetches_, {});
  for (auto& [name, fetch] : fetches) {
    receiver_.Drop(name);
    if (fetch.done != nullptr) std::move(fetch.done)(ended_);
  }
  buffers_.End(ended_);
}

size_t Lanes::num_calls() const {
  size_t calls = 0;
  for (const auto& [id, host] : hosts_) calls += host.calls->size();
  return calls;
}

bool Lanes::Break(HostId host) {
  auto it = hosts_.find(host);
  if (it == hosts_.end() || it->second.end == nullptr) return false;
  it->second.end->Close(absl::UnavailableError("a test breaks it"));
  return true;
}

}  // namespace pw::client
