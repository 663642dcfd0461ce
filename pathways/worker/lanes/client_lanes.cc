#include "pathways/worker/lanes/client_lanes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/worker/store/memory_ledger.h"
#include "pathways/worker/store/outbox.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;
using lanes::LaneEnd;
}  // namespace

ClientLanes::ClientLanes(WorkerContext* context, BlockCache* blocks, Timers* timers, int64_t limit_bytes, HostQuota* quota,
                         MemoryGate* activity)
    : context_(context), blocks_(blocks), timers_(timers), limit_bytes_(limit_bytes), quota_(quota), activity_(activity) {}
ClientLanes::~ClientLanes() {
  for (auto& [session, client] : clients_)
    client.calls.Fail(absl::UnavailableError("the worker has lost its controller while the program was calling back"));
}

void ClientLanes::Accept(std::unique_ptr<net::Connection> connection) {
  const LaneId id = next_lane_++;
  auto post = [this, strand = context_->strand(), alive = context_->alive()](absl::AnyInvocable<void(LaneEnd::Owner&)&&> task) {
    strand->Post([this, alive, task = std::move(task)]() mutable {
      if (!alive.expired()) std::move(task)(*this);
    });
  };
  End& end = ends_[id];
  end.lane = std::make_unique<LaneEnd>(id, std::move(connection), std::move(post));
  if (std::optional<LaneId> oldest = strangers_.Add(id)) ends_.at(*oldest).lane->Close(strangers_.TooMany());
  end.lane->Start();
  if (timers_ == nullptr) return;
  timers_->After(strangers_.kGreetingTime, context_->strand(), [this, id, alive = context_->alive()] {
    if (!alive.expired() && strangers_.Remove(id)) ends_.at(id).lane->Close(strangers_.TooSlow());
  });
}

void ClientLanes::Admit(const v1::AdmitLane& command) {
  if (context_->ended(SessionId(command.session()))) return;
  Client& client = clients_[SessionId(command.session())];
  client.key = command.key();
  client.kept = kKeptWithoutLane + absl::Seconds(std::clamp(command.grace_seconds(), 0.0, 1e9));
}

LaneEnd* ClientLanes::EndOf(const Client& client) { return client.lane == 0 ? nullptr : ends_.at(client.lane).lane.get(); }

void ClientLanes::OnLaneMessage(LaneId lane, v1::LaneMessage message, Bytes payload) {
  auto end = ends_.find(lane);
  if (end == ends_.end()) return;
  if (end->second.session == SessionId()) {
    if (message.has_hello()) return Greet(lane, message.hello());
    return end->second.lane->Close(absl::InvalidArgumentError("a client's first message on a lane must be a hello"));
  }
  auto client = clients_.find(end->second.session);
  if (client == clients_.end() || client->second.lane != lane) return;  // another one has taken its place
  if (absl::Status status = Handle(client->second, message, std::move(payload)); !status.ok()) end->second.lane->Close(status);
}

absl::Status ClientLanes::CheckHello(const v1::LaneHello& hello) const {
  if (hello.version() != lanes::kVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the client speaks version ", hello.version(),
                                                      " of lanes, this worker version ", lanes::kVersion,
                                                      ": install the same version of pathways on both sides"));
  }
  auto client = clients_.find(SessionId(hello.session()));
  if (client == clients_.end() || client->second.key.empty() || !SameSecret(hello.key(), client->second.key))
    return absl::PermissionDeniedError("this worker knows no session with this number and key");
  return absl::OkStatus();
}

void ClientLanes::Greet(LaneId lane, const v1::LaneHello& hello) {
  End& end = ends_.at(lane);
  strangers_.Remove(lane);
  if (absl::Status status = CheckHello(hello); !status.ok()) return end.lane->Close(status);
  end.session = SessionId(hello.session());
  Client& client = clients_.at(end.session);
  if (client.next != 0) ends_.at(client.next).lane->Close(absl::UnavailableError("the client has opened a newer lane"));
  client.next = lane;
  client.begun.clear();
  for (const auto& begun : hello.begun()) client.begun[begun.fetch()] = begun.received();
  client.shares_memory = hello.shares_memory();
  if (client.lane == 0) return OpenNext(client);
  EndOf(client)->Close(absl::UnavailableError("the client has opened a newer lane"));
}

void ClientLanes::OpenNext(Client& client) {
  client.lane = std::exchange(client.next, 0);
  ++client.absence;  // is over
  LaneEnd& lane = *EndOf(client);
  lane.Open(client.receiver.receive_buffers());
  v1::LaneMessage welcome;
  OfferMemory(client, welcome.mutable_welcome());
  lane.Send(welcome);
  for (uint64_t fetch : std::exchange(client.given_up, {})) {
    v1::LaneMessage message;
    message.mutable_failed()->set_fetch(fetch);
    *message.mutable_failed()->mutable_status() = ToProto(absl::UnavailableError(
        absl::StrCat(context_->NameOf(context_->self()), " has given up what was read: its client was away for more than ",
                     absl::FormatDuration(client.kept), "; read it again")));
    lane.Send(message);
  }
  for (const auto& [name, buffer] : client.buffers) {
    if (buffer.asked) SendWant(client, name);
  }
  client.calls.Resume(lane);
  if (client.memory_key.empty()) ResumeFetches(client);
  AskForMore();
}

void ClientLanes::OfferMemory(Client& client, v1::LaneWelcome* welcome) {
  if (files_ == nullptr || !client.shares_memory) return;
  auto connected = [this, strand = context_->strand(), lane = client.lane,
                    alive = context_->alive()](std::unique_ptr<net::FileSocket> files) {
    strand->Post([this, lane, alive, files = std::move(files)]() mutable {
      if (!alive.expired()) OnMemorySocket(lane, std::move(files));
    });
  };
  client.memory_key = files_->Expect(std::move(connected));
  welcome->set_memory_socket(files_->address());
  welcome->set_memory_key(client.memory_key);
}

void ClientLanes::OnMemorySocket(LaneId lane, std::unique_ptr<net::FileSocket> files) {
  auto end = ends_.find(lane);
  if (end == ends_.end()) return;
  auto client = clients_.find(end->second.session);
  if (client == clients_.end() || client->second.lane != lane) return;
  end->second.lane->ShareMemory(std::move(files));
  client->second.memory_key.clear();
  ResumeFetches(client->second);
}

void ClientLanes::ResumeFetches(Client& client) {
  for (const auto& [name, fetched] : client.fetched) {
    auto begun = client.begun.find(name);
    const bool goes_on = begun != client.begun.end() && begun->second < fetched.data.size();
    client.sender.Add(name, fetched.data, goes_on ? begun->second : 0);
  }
  client.sender.Pump(*EndOf(client));
}

bool ClientLanes::SharesMemory(SessionId session) const {
  if (files_ == nullptr) return false;
  auto client = clients_.find(session);
  if (client == clients_.end() || client->second.lane == 0 || !client->second.memory_key.empty()) return true;  // not known yet
  return ends_.at(client->second.lane).lane->shares_memory();
}

absl::Status ClientLanes::Handle(Client& client, const v1::LaneMessage& message, Bytes payload) {
  switch (message.kind_case()) {
    case v1::LaneMessage::kBytes:
      if (message.bytes().has_call()) return client.calls.OnBytes(message.bytes(), std::move(payload), *EndOf(client));
      return AddPart(client, message.bytes(), std::move(payload));
    case v1::LaneMessage::kTaken:
      OnTaken(client, message.taken());
      return absl::OkStatus();
    case v1::LaneMessage::kAnswer:
      return client.calls.OnAnswer(message.answer(), payload, *blocks_, *EndOf(client));
    case v1::LaneMessage::kFailed: {
      auto buffer = client.buffers.find(message.failed().buffer());
      if (buffer == client.buffers.end() || !buffer->second.asked) return absl::OkStatus();
      const absl::Status status = FromProto(message.failed().status());
      Finish(client, buffer->first, status.ok() ? absl::CancelledError("the client has not sent this host buffer") : status);
      return absl::OkStatus();
    }
    case v1::LaneMessage::kNoMemory:
      if (client.memory_key.empty()) return absl::InvalidArgumentError("a client refuses memory that it was not offered");
      files_->Forget(std::exchange(client.memory_key, ""));
      ResumeFetches(client);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("a client sent a kind of message that only workers send on lanes");
  }
}

void ClientLanes::OnTaken(Client& client, const v1::LaneTaken& taken) {
  for (uint64_t fetch : taken.fetches()) {
    client.sender.Drop(fetch);
    auto node = client.fetched.extract(fetch);
    if (!node.empty()) std::move(node.mapped().gone)();
  }
  for (uint64_t call : taken.calls()) client.calls.OnTaken(call);
}

absl::Status ClientLanes::AddPart(Client& client, const v1::LaneBytes& bytes, Bytes payload) {
  auto buffer = client.buffers.find(bytes.buffer());
  if (buffer == client.buffers.end()) return absl::OkStatus();  // the rest of a buffer that no Put waits for
  if (!buffer->second.asked)
    return absl::InvalidArgumentError("a client sent bytes of a host buffer that this worker has not requested");
  PW_ASSIGN_OR_RETURN(const bool complete,
                      client.receiver.Add(bytes.buffer(), bytes.offset(), bytes.total_bytes(), std::move(payload)));
  if (complete) Finish(client, bytes.buffer(), client.receiver.Take(bytes.buffer()));
  return absl::OkStatus();
}

void ClientLanes::OnLaneWritable(LaneId lane) {
  auto end = ends_.find(lane);
  if (end == ends_.end()) return;
  auto client = clients_.find(end->second.session);
  if (client == clients_.end() || client->second.lane != lane) return;
  client->second.calls.Pump(*end->second.lane);
  client->second.sender.Pump(*end->second.lane);
}

void ClientLanes::OnLaneClosed(LaneId lane, const absl::Status& reason) {
  auto node = ends_.extract(lane);
  if (node.empty()) return;
  strangers_.Remove(lane);
  const SessionId session = node.mapped().session;
  auto client = clients_.find(session);
  if (client == clients_.end()) return;
  if (client->second.next == lane) client->second.next = 0;
  if (client->second.lane == lane) LaneGone(session, client->second);
}

void ClientLanes::LaneGone(SessionId session, Client& client) {
  client.lane = 0;
  client.sender.Clear();
  client.calls.LaneGone();
  if (!client.memory_key.empty()) files_->Forget(std::exchange(client.memory_key, ""));
  for (const auto& [name, buffer] : client.buffers) client.receiver.Restart(name);
  if (client.next != 0) return OpenNext(client);
  AwaitClient(session, client);
}

void ClientLanes::AwaitClient(SessionId session, const Client& client) {
  if (timers_ == nullptr) return;
  timers_->After(client.kept, context_->strand(), [this, session, absence = client.absence, alive = context_->alive()] {
    if (!alive.expired()) GiveUp(session, absence);
  });
}

void ClientLanes::GiveUp(SessionId session, uint64_t absence) {
  auto it = clients_.find(session);
  if (it == clients_.end() || it->second.absence != absence || it->second.lane != 0) return;
  Client& client = it->second;
  TakeBack(client);
  auto fetched = std::exchange(client.fetched, {});
  for (const auto& [name, data] : fetched) client.given_up.push_back(name);
  for (auto& [name, data] : fetched) std::move(data.gone)();
  client.calls.Fail(absl::UnavailableError(absl::StrCat(
      "a program called a Python function, and its client was away for more than ", absl::FormatDuration(client.kept))));
  AskForMore();
}

// Drops the received parts of requested buffers, and queues the buffers to be requested again.
void ClientLanes::TakeBack(Client& client) {
  for (auto it = client.buffers.rbegin(); it != client.buffers.rend(); ++it) {
    if (!std::exchange(it->second.asked, false)) continue;
    Forget(client, it->second.bytes);
    client.receiver.Drop(it->first);
    it->second.charge = nullptr;
    client.waiting.push_front(it->first);
    if (client.over_quota) activity_->SetAside(1);
  }
}

void ClientLanes::Forget(Client& client, int64_t asked_bytes) {
  client.asked_bytes -= asked_bytes;
  asked_bytes_ -= asked_bytes;
}

void ClientLanes::Expect(SessionId session, uint64_t name, int64_t bytes, Arrived arrived) {
  if (bytes > limit_bytes_) {
    return std::move(arrived)(absl::ResourceExhaustedError(absl::StrCat(
        "a host buffer of ", HumanBytes(bytes), " does not fit into the ", HumanBytes(limit_bytes_),
        " of host memory that this worker sets aside for transfers: send less at a time, or raise --staging-limit")));
  }
  if (absl::Status status = quota_->Check(session, bytes); !status.ok()) return std::move(arrived)(std::move(status));
  Client& client = clients_[session];
  auto [it, is_new] = client.buffers.try_emplace(name);
  if (!is_new) return std::move(arrived)(absl::InvalidArgumentError(absl::StrCat("host buffer ", name, " is expected already")));
  it->second.bytes = bytes;
  it->second.arrived = std::move(arrived);
  client.waiting.push_back(name);
  if (client.over_quota) activity_->SetAside(1);
  AskForMore();
}

void ClientLanes::AskForMore() {
  while (AskForOne()) {
  }
}

// Requests one buffer. Sessions take turns. If the next buffer does not fit beside those of others, all wait until it does: large
// buffers would starve otherwise.
bool ClientLanes::AskForOne() {
  auto turn = clients_.upper_bound(last_asked_);
  for (size_t i = 0; i < clients_.size(); ++i, ++turn) {
    if (turn == clients_.end()) turn = clients_.begin();
    Client& client = turn->second;
    if (client.lane == 0 || client.waiting.empty()) continue;
    const uint64_t name = client.waiting.front();
    const int64_t bytes = client.buffers.at(name).bytes;
    const bool fits = quota_->HasRoom(HostQuota::Way::kIn, turn->first, bytes);
    SetOverQuota(client, !fits);
    if (!fits || (client.asked_bytes > 0 && client.asked_bytes + bytes > limit_bytes_ / 2)) continue;
    if (bytes > limit_bytes_ - asked_bytes_) return false;
    client.waiting.pop_front();
    last_asked_ = turn->first;
    Ask(turn->first, client, name);
    return true;
  }
  return false;
}

void ClientLanes::SetOverQuota(Client& client, bool over) {
  if (std::exchange(client.over_quota, over) == over) return;
  const auto waiting = static_cast<int64_t>(client.waiting.size());
  activity_->SetAside(over ? waiting : -waiting);
}

std::vector<ClientLanes::Waiting> ClientLanes::quota_waits() const {
  std::vector<Waiting> waits;
  for (const auto& [session, client] : clients_) {
    if (client.over_quota && !client.waiting.empty())
      waits.push_back({session, client.buffers.at(client.waiting.front()).bytes});
  }
  return waits;
}

void ClientLanes::Ask(SessionId session, Client& client, uint64_t name) {
  Buffer& buffer = client.buffers.at(name);
  std::optional<AlignedBytes> memory = blocks_->Take(static_cast<size_t>(buffer.bytes));
  if (!memory.has_value()) {
    return Finish(client, name,
                  absl::ResourceExhaustedError(
                      absl::StrCat("this worker's machine has no memory for a host buffer of ", HumanBytes(buffer.bytes))));
  }
  buffer.asked = true;
  buffer.charge = quota_->Take(HostQuota::Way::kIn, session, buffer.bytes);
  client.asked_bytes += buffer.bytes;
  asked_bytes_ += buffer.bytes;
  client.receiver.Expect(name, *std::move(memory));
  SendWant(client, name);
}

void ClientLanes::SendWant(Client& client, uint64_t name) {
  v1::LaneMessage message;
  auto& want = *message.mutable_want();
  want.set_buffer(name);
  want.set_offset(client.receiver.received(name));
  want.set_total_bytes(client.buffers.at(name).bytes);
  EndOf(client)->Send(message);
}

void ClientLanes::Finish(Client& client, uint64_t name, absl::StatusOr<Bytes> bytes) {
  auto node = client.buffers.extract(name);
  if (node.mapped().asked) {
    Forget(client, node.mapped().bytes);
    client.receiver.Drop(name);
    node.mapped().charge = nullptr;  // the caller charges for what has come
  } else if (std::erase(client.waiting, name) > 0 && client.over_quota) {
    activity_->SetAside(-1);
  }
  std::move(node.mapped().arrived)(std::move(bytes));
  AskForMore();
}

void ClientLanes::Send(SessionId session, uint64_t fetch, Bytes data, Gone gone) {
  Client& client = clients_[session];
  auto [it, is_new] = client.fetched.try_emplace(fetch);
  if (!is_new) return std::move(gone)();  // the number is in use: the client reads one array by it
  it->second = {data, std::move(gone)};
  if (client.lane == 0 || !client.memory_key.empty()) return;
  client.sender.Add(fetch, std::move(data), 0);
  client.sender.Pump(*EndOf(client));
}

bool ClientLanes::Serves(SessionId session) const {
  auto client = clients_.find(session);
  return client != clients_.end() && !client->second.key.empty();
}

void ClientLanes::Call(const device::HostCallRequest& request, LaneCalls::Done done) {
  Client& client = clients_.at(request.session);
  client.calls.Start(next_call_++, request, std::move(done), EndOf(client));
  // The client has never connected, or did not return the last time.
  if (client.lane == 0 && client.calls.size() == 1) AwaitClient(request.session, client);
}

void ClientLanes::FailAll(Client& client, const absl::Status& status) {
  TakeBack(client);
  SetOverQuota(client, false);
  client.waiting.clear();
  auto buffers = std::exchange(client.buffers, {});
  auto fetched = std::exchange(client.fetched, {});
  client.sender.Clear();
  for (auto& [name, buffer] : buffers) std::move(buffer.arrived)(status);
  for (auto& [name, data] : fetched) std::move(data.gone)();
  client.calls.Fail(status);
}

void ClientLanes::Fail(const v1::FailLane& command) {
  auto client = clients_.find(SessionId(command.session()));
  if (client == clients_.end()) return;
  const absl::Status status = FromProto(command.status());
  FailAll(client->second, status.ok() ? absl::UnavailableError("the client cannot connect to this worker") : status);
  AskForMore();
}

void ClientLanes::ReleaseOwner(SessionId session) {
  auto node = clients_.extract(session);
  if (node.empty()) return;
  if (!node.mapped().memory_key.empty()) files_->Forget(node.mapped().memory_key);
  for (LaneId lane : {node.mapped().lane, node.mapped().next}) {
    if (lane != 0) ends_.at(lane).lane->Close(absl::CancelledError("the session has ended"));
  }
  node.mapped().calls.Fail(absl::CancelledError("the client has gone; nobody can answer its program's callback"));
  FailAll(node.mapped(), absl::CancelledError("the client has gone, and with it the rest of this host buffer"));
  AskForMore();
}

}  // namespace pw::worker
