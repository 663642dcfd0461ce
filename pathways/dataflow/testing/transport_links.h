// TransportLinks: Links over connections of their own (net/transport.h). Two hosts have one connection in each direction, made at
// the first send. Frames flow only from the side that connected.
//
// If a connection breaks or cannot be made, the peer is lost; a host that comes back has a new number.
//
// Invariants:
//   TL-1  a connection that does not begin with a Hello of this controller's incarnation is refused
//   TL-2  of a peer that is removed or lost, only its number is kept
// Lives on the runtime's strand; the connections' threads only post to it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "pathways/base/threads/executor.h"
#include "pathways/dataflow/links.h"
#include "pathways/net/transport.h"

namespace pw::dataflow {

class TransportLinks : public Links {
 public:
  struct Options {
    HostId self;
    uint64_t incarnation = 0;  // of the controller; peers with another one are refused
    absl::Duration connect_timeout = absl::Seconds(5);
  };

  // `transport` outlives this object; `strand` outlives both, and all callbacks of the transport.
  TransportLinks(net::Transport* transport, Executor* strand, const Options& options);
  ~TransportLinks() override;

  // Sets the address on which a host listens.
  void SetPeer(HostId host, std::string address);
  // Loses a peer that has left the cluster.
  void RemovePeer(HostId host, const absl::Status& reason) { Lose(host, reason); }
  // Takes a connection that a listener has accepted.
  void Accept(std::unique_ptr<net::Connection> connection);

  void Start(Handler* handler) override;
  void Send(HostId to, std::string header, std::vector<Bytes> payload, net::Lane lane) override;
  void Disconnect(HostId host, const absl::Status& why) override { LoseLater(host, why); }

 private:
  struct Outgoing;
  struct Incoming;
  struct Queued {
    std::string header;
    std::vector<Bytes> payload;
    net::Lane lane;
  };

  void Connect(HostId to);
  void Connected(HostId to, absl::StatusOr<std::unique_ptr<net::Connection>> connection);
  void OnIncomingFrame(uint64_t id, net::Frame frame);
  absl::Status Greet(Incoming* in, const std::string& hello);
  void OnIncomingClosed(uint64_t id, const absl::Status& reason);
  void Lose(HostId host, const absl::Status& reason);
  void LoseLater(HostId host, const absl::Status& reason);
  void Post(Task task);

  net::Transport* const transport_;
  Executor* const strand_;
  const Options options_;
  Handler* handler_ = nullptr;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // outlives the connections, whose threads read it
  absl::flat_hash_map<HostId, std::unique_ptr<Outgoing>> outgoing_;
  std::map<uint64_t, std::unique_ptr<Incoming>> incoming_;
  uint64_t next_incoming_ = 1;
  absl::flat_hash_set<HostId> lost_;
};

}  // namespace pw::dataflow
