#include "pathways/worker/transfer/peer_connections.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/worker/transfer/host_views.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr absl::Duration kConnectTimeout = absl::Seconds(5);  // without a grace time
constexpr absl::Duration kConnectPause = absl::Milliseconds(50);

PeerConnections::Options Checked(PeerConnections::Options options, const Timers* timers) {
  if (timers == nullptr) options.grace = absl::ZeroDuration();
  return options;
}

net::ResumableLink::Counts CountsOf(const v1::ReceivedFrames& received) { return {received.urgent(), received.bulk()}; }

// Returns whether the source of a transfer that ends with this chunk may be sent in place: then somebody may wait to reuse it.
bool EndsLargeTransfer(const v1::PeerMessage& message) {
  const v1::Chunk& chunk = message.chunk();
  return message.has_chunk() && chunk.total_bytes() >= static_cast<uint64_t>(kViewBytes) &&
         chunk.payload_bytes() == chunk.total_bytes() - chunk.offset();
}

std::string Short(absl::Duration duration) { return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1))); }

}  // namespace

PeerConnections::PeerConnections(WorkerContext* context, const HostMemory* host_memory, net::Transport* transport, Timers* timers,
                                 const Options& options)
    : context_(context),
      transport_(transport),
      timers_(timers),
      peers_in_process_(host_memory->peers_in_process()),
      options_(Checked(options, timers)),
      transfers_(context, host_memory, [this](HostId host) { Connect(host); }),
      frames_(context, [this](HostId host) { Connect(host); }) {
  if (options_.grace > absl::ZeroDuration() && options_.heartbeat_limit > absl::ZeroDuration()) ScheduleTick();
}
PeerConnections::~PeerConnections() = default;

void PeerConnections::SetPeers(const v1::Peers& peers) {
  std::map<HostId, const v1::Peers::Peer*> now;
  for (const v1::Peers::Peer& peer : peers.peers()) now[HostId(peer.host())] = &peer;
  std::vector<HostId> gone;
  for (const auto& [host, out] : outgoing_) {
    if (now.count(host) == 0) gone.push_back(host);
  }
  for (HostId host : gone) {
    const absl::Status status = UnreachableHostError(host, absl::StrCat(context_->NameOf(host), " has left the cluster"));
    DropIncoming(host);
    const auto out = outgoing_.extract(host);  // its stream outlives the notices below
    if (out.mapped().wire != 0) wires_.erase(out.mapped().wire);
    frames_.Remove(host, status);
    transfers_.Remove(host, status);
    frames_.TellLeft(host, status);
  }
  for (const auto& [host, peer] : now) {
    if (!peer->name().empty()) context_->SetName(host, peer->name());
    outgoing_[host].address = peer->address();
    frames_.Add(host);
    transfers_.Add(host, peer->takes_shared());
  }
}

net::Counters PeerConnections::counters(HostId host) const {
  auto it = outgoing_.find(host);
  return it == outgoing_.end() || it->second.wire == 0 ? net::Counters()
                                                       : wires_.at(it->second.wire).end->connection()->counters();
}

size_t PeerConnections::kept_frames(HostId host) const {
  auto it = outgoing_.find(host);
  return it == outgoing_.end() || it->second.stream == nullptr ? 0 : it->second.stream->kept_frames();
}

PeerWire* PeerConnections::AddWire(std::unique_ptr<net::Connection> connection, std::optional<HostId> host, bool outgoing) {
  const WireId id = next_wire_++;
  PeerWire::Owner* const owner = this;  // a private base, which make_unique could not convert
  auto end =
      std::make_unique<PeerWire>(id, std::move(connection), context_, owner, outgoing ? nullptr : transfers_.receive_buffers());
  PeerWire* const wire = end.get();
  wires_[id] = {std::move(end), host, outgoing};
  return wire;
}

absl::Status PeerConnections::Count(Link* link, const v1::PeerMessage& message, size_t bytes) {
  if (message.has_received()) PW_RETURN_IF_ERROR(link->stream->Acknowledge(CountsOf(message.received())));
  if (!message.beside()) link->stream->Receive(net::Lane::kBulk, bytes);
  return absl::OkStatus();
}

// Returns the time since which a link whose connection has closed is broken.
absl::Time PeerConnections::BrokenSince(Link* link) {
  const absl::Time pinged = std::exchange(link->pinged, absl::InfinitePast());
  return std::exchange(link->silent, false) ? pinged : context_->clock()->Now();
}

void PeerConnections::OnPeerMessage(WireId id, const v1::PeerMessage& message, Bytes payload, size_t bytes) {
  auto it = wires_.find(id);
  if (it == wires_.end()) return;
  PeerWire* const wire = it->second.end.get();
  if (!it->second.host.has_value()) {
    if (absl::Status status = Greet(id, message); !status.ok()) wire->Close(status);
    return;
  }
  const HostId host = *it->second.host;
  if (it->second.outgoing) {
    Outgoing& out = outgoing_.at(host);
    if (absl::Status status = FromPeer(host, &out, message, bytes); !status.ok()) GiveUp(host, Broken(host, out, status));
    return;
  }
  Incoming& in = incoming_.at(host);
  if (in.wire != id) return wire->Close(absl::FailedPreconditionError("a worker sent more before it was answered"));
  if (absl::Status status = Handle(host, &in, message, std::move(payload), bytes); !status.ok()) GiveUpIncoming(host, status);
}

void PeerConnections::OnPeerWritable(WireId id) {
  auto it = wires_.find(id);
  if (it != wires_.end() && it->second.outgoing) transfers_.Pump(*it->second.host);
}

void PeerConnections::OnPeerClosed(WireId id, const absl::Status& reason) {
  auto it = wires_.find(id);
  if (it == wires_.end()) return;
  const std::optional<HostId> host = it->second.host;
  const bool outgoing = it->second.outgoing;
  wires_.erase(it);
  if (!host.has_value()) return;
  if (outgoing) return OutgoingClosed(*host, &outgoing_.at(*host), reason);
  IncomingClosed(*host, id, reason);
}

// ---- to other workers

void PeerConnections::Connect(HostId to) {
  Outgoing& out = outgoing_.at(to);
  if (out.connecting || out.stream != nullptr) return;
  out.broken_since = context_->clock()->Now();
  out.attempts = {};
  Attempt(to);
}

void PeerConnections::Attempt(HostId to) {
  Outgoing& out = outgoing_.at(to);
  out.connecting = true;
  const absl::Duration left = out.broken_since + options_.grace - context_->clock()->Now();
  const absl::Duration limit =
      options_.grace > absl::ZeroDuration() ? std::clamp(left, absl::Milliseconds(1), out.attempts.Next()) : kConnectTimeout;
  auto connected = [this, to, strand = context_->strand(),
                    alive = context_->alive()](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
    auto shared = std::make_shared<absl::StatusOr<std::unique_ptr<net::Connection>>>(std::move(connection));
    strand->Post([this, to, alive, shared] {
      if (!alive.expired()) Connected(to, std::move(*shared));
    });
  };
  transport_->Connect(out.address, limit, std::move(connected));  // calls it on a thread of the transport
}

void PeerConnections::Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
  auto it = outgoing_.find(to);
  if (it == outgoing_.end()) return;
  Outgoing& out = it->second;
  if (!out.connecting) return;  // given up meanwhile
  const absl::Status status = connection.ok() ? net::CheckServer(**connection, net::PeerProof::kWorker) : connection.status();
  if (!status.ok()) return Unreachable(to, status);
  out.connecting = false;
  PeerWire* const wire = AddWire(*std::move(connection), to, /*outgoing=*/true);
  out.wire = wire->id();
  wire->Start();
  if (out.stream == nullptr) return Begin(to, &out);
  out.asking = true;
  out.pinged = context_->clock()->Now();
  v1::PeerMessage hello = Hello(to, out.number);
  hello.mutable_hello()->mutable_received()->set_bulk(out.stream->received().bulk);
  wire->Send(std::move(hello), net::Lane::kBulk);
}

v1::PeerMessage PeerConnections::Hello(HostId to, uint64_t link) const {
  v1::PeerMessage message;
  message.mutable_hello()->set_from_host(context_->self().v);
  message.mutable_hello()->set_incarnation(options_.incarnation);
  message.mutable_hello()->set_to_host(to.v);
  message.mutable_hello()->set_link(link);
  return message;
}

// Begins a link on its first connection. Its frames need not wait for an answer.
void PeerConnections::Begin(HostId to, Outgoing* out) {
  PeerWire* const wire = WireOf(*out);
  const bool resumable = wire->connection()->breakable() && options_.grace > absl::ZeroDuration() && !peers_in_process_;
  ++out->number;
  out->stream = std::make_unique<net::ResumableLink>(wire->connection(), resumable, net::ResumableLink::Lanes::kBulkOnly);
  wire->Open(out->stream.get());
  wire->Send(Hello(to, resumable ? out->number : 0), net::Lane::kBulk);
  frames_.Connected(to, out->stream.get());
  transfers_.Connected(to, out->stream.get());
}

// Tries again, or gives the link up.
void PeerConnections::Unreachable(HostId to, const absl::Status& reason) {
  Outgoing& out = outgoing_.at(to);
  const size_t kept = out.stream == nullptr ? 0 : out.stream->kept_bytes();
  const absl::Duration broken = context_->clock()->Now() - out.broken_since;
  if (broken < options_.grace && kept <= kMostKeptBytes && !absl::IsUnauthenticated(reason)) {
    out.connecting = true;  // the pause is part of it
    return timers_->After(kConnectPause, context_->strand(), [this, to, alive = context_->alive()] {
      if (alive.expired()) return;
      auto it = outgoing_.find(to);
      if (it != outgoing_.end() && it->second.connecting) Attempt(to);
    });
  }
  if (out.stream != nullptr) {
    return GiveUp(to, Broken(to, out,
                             absl::UnavailableError(
                                 absl::StrCat("it could not be made again within ", Short(broken), ": ", reason.message()))));
  }
  GiveUp(to, UnreachableHostError(
                 to, absl::StrCat("cannot reach ", context_->NameOf(to), " at ", out.address, ": ", reason.message())));
}

absl::Status PeerConnections::Broken(HostId to, const Outgoing& out, const absl::Status& reason) const {
  return UnreachableHostError(
      to, absl::StrCat("the connection to ", context_->NameOf(to), " at ", out.address, " broke: ", reason.message()));
}

absl::Status PeerConnections::FromPeer(HostId from, Outgoing* out, const v1::PeerMessage& message, size_t bytes) {
  if (message.has_resumed()) return Resumed(from, out, message.resumed());
  if (message.has_given_up()) {
    const absl::Status why = absl::UnavailableError(absl::StrCat(context_->NameOf(from), " has given it up"));
    const auto in = incoming_.find(from);
    if (!message.given_up().own()) {
      GiveUp(from, Broken(from, *out, why));
    } else if (in != incoming_.end() && in->second.stream != nullptr && in->second.number == message.given_up().link()) {
      GiveUpIncoming(from, why);
    }
    return absl::OkStatus();
  }
  if (out->asking) return absl::OkStatus();  // an acknowledgement that is repeated by the answer
  PW_RETURN_IF_ERROR(Count(out, message, bytes));
  if (message.has_received()) transfers_.Pump(from);
  if (message.has_taken()) transfers_.Returned(from, message.taken());  // no other message in this direction
  return absl::OkStatus();
}

absl::Status PeerConnections::Resumed(HostId to, Outgoing* out, const v1::PeerResumed& resumed) {
  if (!std::exchange(out->asking, false)) return absl::FailedPreconditionError("a worker resumed a link that was not broken");
  PeerWire* const wire = WireOf(*out);
  PW_RETURN_IF_ERROR(out->stream->Resume(wire->connection(), CountsOf(resumed.received())));
  wire->Open(out->stream.get());
  PW_LOG_INFO << "the connection to " << context_->NameOf(to) << " is back after "
              << Short(context_->clock()->Now() - out->broken_since);
  out->stream->TellAgain();
  transfers_.Pump(to);
  return absl::OkStatus();
}

void PeerConnections::OutgoingClosed(HostId to, Outgoing* out, const absl::Status& reason) {
  out->wire = 0;
  const absl::Time since = BrokenSince(out);
  if (!out->stream->resumable() || !absl::IsUnavailable(reason)) {
    return GiveUp(to, Broken(to, *out, reason));
  }
  if (out->stream->away()) {  // it broke before the peer had answered
    out->asking = false;
    return Unreachable(to, reason);
  }
  PW_LOG_WARNING << "the connection to " << context_->NameOf(to) << " is lost, and made again: " << reason.message();
  out->stream->Lose();
  out->broken_since = since;
  out->attempts = {};
  Attempt(to);
}

// Ends the link, or the attempt to make one. The peer hears of it on its own link to this host, if that has a connection.
void PeerConnections::GiveUp(HostId to, const absl::Status& error) {
  Outgoing& out = outgoing_.at(to);
  if (const WireId wire = std::exchange(out.wire, 0); wire != 0) wires_.erase(wire);
  const std::unique_ptr<net::ResumableLink> stream = std::move(out.stream);  // destroyed last: the users below still name it
  out.connecting = out.asking = out.silent = false;
  const auto in = incoming_.find(to);
  if (stream != nullptr && stream->resumable() && in != incoming_.end() && in->second.stream != nullptr && in->second.wire != 0) {
    v1::PeerMessage told;
    told.mutable_given_up()->set_own(true);
    told.mutable_given_up()->set_link(out.number);
    WireOf(in->second)->Send(std::move(told), net::Lane::kUrgent);
  }
  frames_.Broken(to, error);
  transfers_.Broken(to, error);
}

// ---- from other workers

void PeerConnections::Accept(std::unique_ptr<net::Connection> connection) {
  const net::PeerProof proof = connection->proof();
  if (proof == net::PeerProof::kStranger || proof == net::PeerProof::kController) return;  // destroyed, which closes it
  AddWire(std::move(connection), std::nullopt, /*outgoing=*/false)->Start();
}

absl::Status PeerConnections::Greet(WireId id, const v1::PeerMessage& message) {
  if (!message.has_hello()) return absl::FailedPreconditionError("a worker's first message to another worker must be a hello");
  const v1::PeerHello& hello = message.hello();
  if (hello.incarnation() != options_.incarnation)
    return absl::FailedPreconditionError("a worker of another controller's life called; it must join again");
  if (hello.has_to_host() && HostId(hello.to_host()) != context_->self()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a worker called host ", hello.to_host(), " at the address of host ", context_->self().v));
  }
  const HostId from(hello.from_host());
  wires_.at(id).host = from;
  if (hello.has_received()) return Resume(id, from, hello);
  const bool resumable = hello.link() != 0;
  Incoming& in = incoming_[from];
  if (resumable && hello.link() <= in.number) {  // it was overtaken by a later connection
    wires_.at(id).host.reset();
    return absl::UnavailableError("the worker has connected anew");
  }
  Serve(from, hello.link(), id, resumable);
  return absl::OkStatus();
}

// Begins a link, and gives up an earlier one.
void PeerConnections::Serve(HostId from, uint64_t number, WireId id, bool resumable) {
  GiveUpIncoming(from, absl::UnavailableError("that worker has begun another link"));
  Incoming& in = incoming_[from];
  in.number = std::max(in.number, number);
  in.wire = id;
  PeerWire& wire = *wires_.at(id).end;
  in.stream = std::make_unique<net::ResumableLink>(wire.connection(), resumable, net::ResumableLink::Lanes::kBulkOnly);
  wire.Open(in.stream.get());
}

// Goes on with a link, when its earlier connection has closed. A link of which this host has not heard begins: its first hello was lost.
absl::Status PeerConnections::Resume(WireId id, HostId from, const v1::PeerHello& hello) {
  Incoming& in = incoming_[from];
  if (hello.link() < in.number || (hello.link() == in.number && (in.stream == nullptr || !in.stream->resumable()))) {
    AnswerGivenUp(id, hello.link());
    return absl::OkStatus();
  }
  if (hello.link() > in.number) {
    GiveUpIncoming(from, absl::UnavailableError("that worker has begun another link"));
    in.number = hello.link();
    in.stream = std::make_unique<net::ResumableLink>(nullptr, true, net::ResumableLink::Lanes::kBulkOnly);
  }
  if (in.next != 0) wires_.at(in.next).end->Close(absl::UnavailableError("that worker has connected anew"));
  in.next = id;
  in.next_received = CountsOf(hello.received());
  if (in.wire == 0)
    OpenNext(from);
  else
    WireOf(in)->Close(absl::UnavailableError("that worker has connected anew"));
  return absl::OkStatus();
}

void PeerConnections::OpenNext(HostId from) {
  Incoming& in = incoming_.at(from);
  const WireId id = std::exchange(in.next, 0);
  PeerWire& wire = *wires_.at(id).end;
  ++in.breaks;
  if (absl::Status status = in.stream->Resume(wire.connection(), in.next_received); !status.ok()) {
    AnswerGivenUp(id, in.number);
    return GiveUpIncoming(from, status);
  }
  in.wire = id;
  wire.Open(in.stream.get());
  v1::PeerMessage answer;
  answer.mutable_resumed()->mutable_received()->set_bulk(in.stream->received().bulk);
  wire.Send(std::move(answer), net::Lane::kBulk);
  in.stream->TellAgain();
}

// Urgent frames leave before the connection closes.
void PeerConnections::AnswerGivenUp(WireId id, uint64_t number) {
  v1::PeerMessage answer;
  answer.mutable_given_up()->set_link(number);
  wires_.at(id).host.reset();
  wires_.at(id).end->Send(std::move(answer), net::Lane::kUrgent);
  wires_.at(id).end->Close(absl::FailedPreconditionError("the link of this connection was given up"));
}

absl::Status PeerConnections::Handle(HostId from, Incoming* in, const v1::PeerMessage& message, Bytes payload, size_t bytes) {
  PW_RETURN_IF_ERROR(Count(in, message, bytes));
  switch (message.kind_case()) {
    case v1::PeerMessage::kChunk:
      PW_RETURN_IF_ERROR(transfers_.OnChunk(from, in->stream.get(), message.chunk(), std::move(payload)));
      if (EndsLargeTransfer(message)) in->stream->TellReceived();
      return absl::OkStatus();
    case v1::PeerMessage::kFailed:
      transfers_.OnFailed(from, message.failed());
      return absl::OkStatus();
    case v1::PeerMessage::kDataflow:
      return frames_.OnFrame(from, message.dataflow(), std::move(payload));
    case v1::PeerMessage::kReport:
      frames_.OnReport(from, message.report());
      return absl::OkStatus();
    case v1::PeerMessage::kLoopTurn:
      frames_.OnTurn(from, message.loop_turn());
      return absl::OkStatus();
    case v1::PeerMessage::kBranchChosen:
      frames_.OnBranch(from, message.branch_chosen());
      return absl::OkStatus();
    default:
      if (message.beside() && message.has_received()) return absl::OkStatus();  // an acknowledgement alone
      return absl::InvalidArgumentError("another worker sent a message of unknown kind");
  }
}

void PeerConnections::IncomingClosed(HostId from, WireId id, const absl::Status& reason) {
  auto it = incoming_.find(from);
  if (it == incoming_.end()) return;
  Incoming& in = it->second;
  if (id == in.next) in.next = 0;
  if (id != in.wire) return;
  in.wire = 0;
  const absl::Duration left = BrokenSince(&in) + options_.grace - context_->clock()->Now();
  if (!in.stream->resumable() || !absl::IsUnavailable(reason) || timers_ == nullptr) return GiveUpIncoming(from, reason);
  in.stream->Lose();
  if (in.next != 0) return OpenNext(from);
  PW_LOG_WARNING << "the connection from " << context_->NameOf(from) << " is lost, and waited for: " << reason.message();
  const uint64_t breaks = ++in.breaks;
  timers_->After(
      std::max(left, absl::ZeroDuration()), context_->strand(), [this, from, breaks, reason, alive = context_->alive()] {
        if (alive.expired()) return;
        auto found = incoming_.find(from);
        if (found == incoming_.end() || found->second.breaks != breaks || found->second.stream == nullptr) return;
        GiveUpIncoming(from, absl::UnavailableError(
                                 absl::StrCat(reason.message(), ", and was not made again within ", Short(options_.grace))));
      });
}

// Ends the link from this host, if there is one.
void PeerConnections::GiveUpIncoming(HostId from, const absl::Status& reason) {
  auto it = incoming_.find(from);
  if (it == incoming_.end() || it->second.stream == nullptr) return;
  Incoming& in = it->second;
  if (const WireId next = std::exchange(in.next, 0); next != 0) AnswerGivenUp(next, in.number);
  if (const WireId wire = std::exchange(in.wire, 0); wire != 0) wires_.erase(wire);
  in.stream = nullptr;
  ++in.breaks;  // nobody waits for this link any more
  in.pinged = absl::InfinitePast();
  in.silent = false;
  const absl::Status status =
      UnreachableHostError(from, absl::StrCat("the connection from ", context_->NameOf(from), " broke: ", reason.message()));
  frames_.IncomingLost(from, status);
  transfers_.IncomingLost(from, status);
}

// Forgets the links of a host that has left.
void PeerConnections::DropIncoming(HostId from) {
  auto in = incoming_.extract(from);  // its stream outlives its connections
  if (in.empty()) return;
  if (in.mapped().wire != 0) wires_.erase(in.mapped().wire);
  if (in.mapped().next != 0) wires_.erase(in.mapped().next);
}

// ---- silence

void PeerConnections::ScheduleTick() {
  const absl::Duration period = options_.heartbeat_limit / 4;
  timers_->After(period, context_->strand(), [this, due = context_->clock()->Now() + period, period, alive = context_->alive()] {
    if (alive.expired()) return;
    // If this comes late, the process was stopped: frames may have come that were not read yet.
    Tick(context_->clock()->Now() - due > period);
    ScheduleTick();
  });
}

void PeerConnections::Tick(bool late) {
  for (auto& [host, out] : outgoing_) Watch(host, &out, /*awaits=*/false, out.asking, late);
  for (auto& [host, in] : incoming_) Watch(host, &in, transfers_.Awaits(host), /*asking=*/false, late);
}

void PeerConnections::Watch(HostId host, Link* link, bool awaits, bool asking, bool late) {
  PeerWire* const wire = WireOf(*link);
  if (wire == nullptr || link->silent || !link->stream->resumable()) return;
  if (!awaits && !asking && link->stream->kept_frames() == 0) return;
  const absl::Time now = context_->clock()->Now();
  if (!asking && wire->last_heard() >= link->pinged) {
    if (now - wire->last_heard() < options_.heartbeat_limit / 4) return;
    link->pinged = now;
    v1::PeerMessage ping;
    ping.set_ping(true);
    return wire->Send(std::move(ping), net::Lane::kUrgent);
  }
  if (late || now - link->pinged < options_.heartbeat_limit / 2) return;
  link->silent = true;
  wire->Close(absl::UnavailableError(
      absl::StrCat("nothing heard from ", context_->NameOf(host), " for ", Short(now - link->pinged), " after a question")));
}

}  // namespace pw::worker
