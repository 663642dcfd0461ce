#include "pathways/worker/transfer/peer_wire.h"

#include <utility>

namespace pw::worker {
namespace v1 = pathways::v1;

PeerWire::PeerWire(WireId id, std::unique_ptr<net::Connection> connection, const WorkerContext* context, Owner* owner,
                   net::ReceiveBuffers* places)
    : id_(id),
      owner_(owner),
      places_(places),
      strand_(context->strand()),
      clock_(context->clock()),
      alive_(context->alive()),
      last_heard_(absl::ToUnixNanos(clock_->Now())),
      connection_(std::move(connection)) {}

void PeerWire::Open(const net::ResumableLink* link) { link_.store(link); }

void PeerWire::Send(v1::PeerMessage message, net::Lane lane) {
  message.set_beside(true);
  connection_->Send(message.SerializeAsString(), lane);
}

template <class F>
void PeerWire::Post(F f) {
  strand_->Post([owner = owner_, id = id_, alive = alive_, f = std::move(f)]() mutable {
    if (!alive.expired()) f(owner, id);
  });
}

void PeerWire::OnFrame(net::Frame frame) {
  last_heard_.store(absl::ToUnixNanos(clock_->Now()));
  auto message = std::make_shared<v1::PeerMessage>();
  if (!message->ParseFromString(frame.header))
    return connection_->Close(absl::InvalidArgumentError("another worker sent a message that does not parse"));
  if (message->has_ping()) return Answer();
  const size_t bytes = frame.header.size() + frame.payload.size();
  Post([message, payload = std::move(frame.payload), bytes](Owner* owner, WireId id) mutable {
    owner->OnPeerMessage(id, *message, std::move(payload), bytes);
  });
}

void PeerWire::Answer() {
  const net::ResumableLink* const link = link_.load();
  if (link == nullptr) return;
  v1::PeerMessage answer;
  answer.mutable_received()->set_bulk(link->received().bulk);
  Send(std::move(answer), net::Lane::kUrgent);
}

net::Place PeerWire::PlaceFor(const std::string& header, size_t payload_bytes) {
  v1::PeerMessage message;
  if (places_ == nullptr || link_.load() == nullptr || !message.ParseFromString(header) || !message.has_chunk()) return {};
  return places_->Take(message.chunk().transfer(), message.chunk().offset(), payload_bytes);
}

void PeerWire::OnBulkWritable() {
  Post([](Owner* owner, WireId id) { owner->OnPeerWritable(id); });
}

void PeerWire::OnClosed(const absl::Status& reason) {
  Post([reason](Owner* owner, WireId id) { owner->OnPeerClosed(id, reason); });
}

}  // namespace pw::worker
