#include "pathways/sim/wire.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "pathways/net/in_memory/join_payload.h"

namespace pw::sim {
namespace {

constexpr size_t kHighWater = net::Limits().bulk_high_water_bytes;

}  // namespace

Wire::Wire(Network* network, Process* connector, Process* acceptor, std::string connector_sees, std::string acceptor_sees)
    : network_(network) {
  ends_[0].process = connector;
  ends_[0].sees = std::move(connector_sees);
  ends_[1].process = acceptor;
  ends_[1].sees = std::move(acceptor_sees);
}

void Wire::Start(int side, net::Connection::Handler* handler) {
  ends_[side].handler = handler;
  // Early frames are delivered from a separate task, never inside this call.
  ends_[side].process->Post([self = shared_from_this(), side] {
    End& end = self->ends_[side];
    while (!end.early.empty() && !end.finished) {
      Sent sent = std::move(end.early.front());
      end.early.pop_front();
      self->HandOver(side, std::move(sent));
    }
    end.open = true;
    if (end.closed_early.has_value()) self->Finish(side, *end.closed_early);
  });
}

absl::Time Wire::ArrivalOf(int side, size_t bytes, net::Lane lane) {
  End& from = ends_[side];
  World& world = *network_->world_;
  absl::Time leaves = world.now();
  const absl::Duration travel = network_->Travel(*from.process, *ends_[1 - side].process, bytes);
  if (lane == net::Lane::kBulk) {
    leaves = std::max(leaves, from.link_free);
    from.link_free = leaves + network_->OnLink(*from.process, *ends_[1 - side].process, bytes);
  }
  absl::Time& last = from.last_arrival[lane == net::Lane::kBulk];
  last = std::max(last, leaves + travel);
  return last;
}

void Wire::Send(int side, std::string header, std::vector<Bytes> payload, net::Lane lane) {
  End& from = ends_[side];
  if (from.closing || from.cut) return;
  network_->AddRepeats(*from.process, *ends_[1 - side].process, &header, &payload);
  network_->Mistake(*from.process, *ends_[1 - side].process, &header);
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  Sent sent{{std::move(header), net::Joined(payload, bytes)}, lane, 0};
  sent.bytes = sent.frame.header.size() + bytes;
  from.counts.frames_sent += 1;
  from.counts.bytes_sent += sent.bytes;
  network_->CountFrame(*from.process, *ends_[1 - side].process, sent.bytes);
  if (lane == net::Lane::kBulk) from.bulk_in_flight += sent.bytes;
  Dispatch(side, std::move(sent));
}

void Wire::Dispatch(int side, Sent sent) {
  End& from = ends_[side];
  const absl::Time arrival = ArrivalOf(side, sent.bytes, sent.lane);
  if (from.held.has_value()) {  // planted: this frame overtakes the previous one
    auto [first, when] = *std::exchange(from.held, std::nullopt);
    Fly(side, std::move(sent), when);
    return Fly(side, std::move(first), arrival);
  }
  if (!network_->StrikesFrame()) return Fly(side, std::move(sent), arrival);
  switch (network_->bug_) {
    case Bug::kLoseFrame:
      return;
    case Bug::kDamageFrame: {
      std::string payload(sent.frame.payload.view());
      if (!payload.empty()) payload.back() = static_cast<char>(payload.back() ^ 0x10);
      sent.frame.payload = Bytes::FromString(std::move(payload));
      return Fly(side, std::move(sent), arrival);
    }
    case Bug::kRepeatFrame:
      Fly(side, sent, arrival);
      return Fly(side, std::move(sent), arrival);
    default:
      from.held.emplace(std::move(sent), arrival);
  }
}

void Wire::Fly(int side, Sent sent, absl::Time arrival) {
  network_->world_->At(arrival, [self = shared_from_this(), side, sent = std::move(sent)]() mutable {
    const End& from = self->ends_[side];
    End& to = self->ends_[1 - side];
    if (to.cut || to.finished || (from.closing && sent.lane == net::Lane::kBulk)) return;
    self->network_->world_->Mix(sent.frame.header);
    to.process->Post([self, side, sent = std::move(sent)]() mutable { self->Deliver(1 - side, std::move(sent)); });
  });
}

void Wire::Deliver(int side, Sent sent) {
  End& to = ends_[side];
  if (to.closing || to.finished) return;
  if (!to.open) return to.early.push_back(std::move(sent));
  HandOver(side, std::move(sent));
}

void Wire::HandOver(int side, Sent sent) {
  End& to = ends_[side];
  End& from = ends_[1 - side];
  if (to.closing || to.finished) return;
  to.counts.frames_received += 1;
  to.counts.bytes_received += sent.bytes;
  if (sent.lane == net::Lane::kBulk) {
    from.bulk_in_flight -= std::min(sent.bytes, from.bulk_in_flight);
    if (from.producer_waits && from.bulk_in_flight <= kHighWater / 2) {
      from.producer_waits = false;
      from.process->Post([self = shared_from_this(), side] {
        End& producer = self->ends_[1 - side];
        if (!producer.closing && !producer.finished && producer.handler != nullptr) producer.handler->OnBulkWritable();
      });
    }
  }
  to.handler->OnFrame(std::move(sent.frame));
}

bool Wire::CanSendBulk(int side) {
  if (ends_[side].bulk_in_flight <= kHighWater) return true;
  ends_[side].producer_waits = true;
  return false;
}

void Wire::Close(int side, absl::Status reason) {
  End& end = ends_[side];
  if (end.closing || end.finished) return;
  end.closing = true;
  end.process->Post([self = shared_from_this(), side, reason = std::move(reason)] { self->Finish(side, reason); });
  CloseOther(side);
}

void Wire::CloseOther(int side) {
  End& from = ends_[side];
  const absl::Time arrival = std::max(ArrivalOf(side, 0, net::Lane::kUrgent), network_->world_->now());
  network_->world_->At(arrival, [self = shared_from_this(), side] {
    End& to = self->ends_[1 - side];
    if (to.cut || to.finished) return;
    to.process->Post([self, side] {
      self->Finish(1 - side,
                   absl::UnavailableError(absl::StrCat("connection to ", self->ends_[1 - side].sees, " was closed by the peer")));
    });
  });
  from.held.reset();
}

void Wire::Finish(int side, const absl::Status& reason) {
  End& end = ends_[side];
  if (end.finished) return;
  if (!end.open) {
    end.closed_early = reason;
    return;
  }
  end.closing = true;
  end.finished = true;
  end.handler->OnClosed(reason);
}

void Wire::Abandon(int side) {
  End& end = ends_[side];
  if (!end.cut) Close(side, absl::CancelledError(absl::StrCat("the connection to ", end.sees, " was destroyed")));
  end.handler = nullptr;
  end.closing = true;
  end.finished = true;
  end.early.clear();
}

void Wire::Break() {
  for (int side : {0, 1}) {
    End& end = ends_[side];
    end.held.reset();
    if (end.closing || end.finished) continue;
    end.closing = true;
    end.process->Post([self = shared_from_this(), side] {
      self->Finish(side,
                   absl::UnavailableError(absl::StrCat("connection to ", self->ends_[side].sees, " was cut by the network")));
    });
  }
}

void Wire::Cut(int side, bool silently) {
  End& end = ends_[side];
  if (end.cut) return;
  if (!silently && !end.closing) CloseOther(side);
  end.cut = true;
  end.finished = true;
}

}  // namespace pw::sim
