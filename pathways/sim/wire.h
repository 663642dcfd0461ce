// Wire: a connection between two simulated processes, with both ends. Part of Network; network.h describes its behaviour.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/net/transport.h"
#include "pathways/sim/network.h"

namespace pw::sim {

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  // End 0 is the connector. Both processes outlive the wire.
  Wire(Network* network, Process* connector, Process* acceptor, std::string connector_sees, std::string acceptor_sees);

  void Start(int side, net::Connection::Handler* handler);
  void Send(int side, std::string header, std::vector<Bytes> payload, net::Lane lane);
  bool CanSendBulk(int side);
  void Close(int side, absl::Status reason);
  // The connection object of this side was destroyed.
  void Abandon(int side);
  // The process of this side is dead; `silently`: the other side is never told.
  void Cut(int side, bool silently);
  // The network ends the connection: both sides are told, and frames under way are lost.
  void Break();

  const net::Counters& counters(int side) const { return ends_[side].counts; }
  const std::string& peer(int side) const { return ends_[side].sees; }
  const Process* process(int side) const { return ends_[side].process; }

 private:
  struct Sent {
    net::Frame frame;
    net::Lane lane;
    size_t bytes;
  };
  struct End {
    Process* process;
    std::string sees;  // the other side's name here
    net::Connection::Handler* handler = nullptr;
    bool closing = false;   // sends and delivers nothing more
    bool finished = false;  // OnClosed has been called, or never will be
    bool cut = false;
    bool producer_waits = false;
    absl::Time link_free = absl::InfinitePast();
    absl::Time last_arrival[2] = {absl::InfinitePast(), absl::InfinitePast()};  // at the other end, per lane
    size_t bulk_in_flight = 0;
    bool open = false;       // the handler has the early frames: new ones are delivered at once
    std::deque<Sent> early;  // arrived before `open`
    std::optional<absl::Status> closed_early;
    std::optional<std::pair<Sent, absl::Time>> held;  // by the planted bug that swaps frames
    net::Counters counts;
  };

  absl::Time ArrivalOf(int side, size_t bytes, net::Lane lane);
  void Dispatch(int side, Sent sent);
  void Fly(int side, Sent sent, absl::Time arrival);
  void Deliver(int side, Sent sent);
  void HandOver(int side, Sent sent);
  void Finish(int side, const absl::Status& reason);
  void CloseOther(int side);

  Network* const network_;
  End ends_[2];
};

}  // namespace pw::sim
