#include "pathways/controller/cluster/members/heartbeats.h"

#include <utility>

namespace pw::controller {

absl::Duration Heartbeats::OnTick(absl::Time now) {
  const bool slept = SleptUntil(now);
  const absl::Duration since_last = now - std::exchange(last_tick_, now);
  return slept ? since_last : absl::ZeroDuration();
}

bool Heartbeats::IsStarved(const PeerLinks::Peer& peer, absl::Time now) {
  return peer.host.has_value() && peer.own_machine && starved_->IsStarved(*peer.host, now - peer.last_heard, now);
}

std::vector<LinkId> Heartbeats::Ping(absl::Time now, bool slept) {
  if (slept) {
    links_->Forgive(now);
    streams_->Forgive(now);
  }
  std::vector<LinkId> silent;
  ::pathways::v1::ToWorker ping;
  ping.add_commands()->mutable_ping()->set_sequence(next_ping_++);
  for (const PeerLinks::Peer& peer : links_->Peers()) {
    const bool starved = IsStarved(peer, now);
    if (now - peer.last_heard > context_.options().heartbeat_limit && !starved) {
      silent.push_back(peer.link);
      continue;
    }
    if (!peer.host.has_value() && !peer.waits) continue;
    ping.clear_received();
    if (peer.host.has_value()) {
      if (const auto received = streams_->received(*peer.host)) {
        ping.mutable_received()->set_urgent(received->urgent);
        ping.mutable_received()->set_bulk(received->bulk);
      }
    }
    links_->Send(peer.link, ping);
  }
  return silent;
}

}  // namespace pw::controller
