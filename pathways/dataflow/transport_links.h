// TransportLinks: links over connections of their own (net/transport.h), one each way between two hosts, made when there is first
// something to send. Frames flow from the side that connected.
//
// A connection that breaks or cannot be made loses the peer: hosts that come back do so under a new number.
//
// Invariants:
//   TL-1  a stranger (no hello, or another controller's life) is refused
//   TL-2  a peer that is removed or lost is forgotten but for its number
// Lives on the runtime's strand; connections' threads only post to it.
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
#include "pathways/base/executor.h"
#include "pathways/dataflow/links.h"
#include "pathways/net/transport.h"

namespace pw::dataflow {

class TransportLinks : public Links {
 public:
  struct Options {
    HostId self;
    uint64_t incarnation = 0;  // of the controller's life
    absl::Duration connect_timeout = absl::Seconds(5);
  };

  // `transport` outlives this; `strand` outlives both, and all that the transport still calls.
  TransportLinks(net::Transport* transport, Executor* strand, const Options& options);
  ~TransportLinks() override;

  // Where a host listens.
  void SetPeer(HostId host, std::string address);
  // It has left the cluster.
  void RemovePeer(HostId host, const absl::Status& reason) { Lose(host, reason); }
  // A connection that a listener has accepted.
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
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // outlives the connections, whose threads look at it
  absl::flat_hash_map<HostId, std::unique_ptr<Outgoing>> outgoing_;
  std::map<uint64_t, std::unique_ptr<Incoming>> incoming_;
  uint64_t next_incoming_ = 1;
  absl::flat_hash_set<HostId> lost_;
};

}  // namespace pw::dataflow
