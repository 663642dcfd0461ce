// MemoryTransport: the Transport interface inside one process, for local clusters, tests and the simulator. It has no sockets,
// threads or clock.
//
// A MemoryNetwork is a set of addresses. Every MemoryTransport is one host in it and has an executor, on which its callbacks and
// handlers run. Addresses are written as for real transports; only their text matters (port 0 takes a free port). With an executor
// that runs tasks in a fixed order, all events here happen in a fixed order.
//
// Invariants, beyond those of transport.h:
//   MT-1  with kLikeSockets, a payload of one small aligned piece is shared with the receiver; any other payload is copied. If
//         PlaceFor returns memory, the payload is copied there, too. With kHandedOver, one aligned piece of any size is shared,
//         and PlaceFor is not called
//   MT-2  a frame counts as waiting on its lane until the receiver's handler is called with it; Close drops the frames that wait
//         on the bulk lane
//   MT-3  destroying a transport closes its connections with CANCELLED; handlers are notified on the executor afterwards
// The network and the executor outlive the transport and all objects that it made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pathways/base/threads/executor.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/net/transport.h"

namespace pw::net {

class MemoryRegistry;
class MemoryEnd;

// kHandedOver: the sender never changes a payload after sending it, so the receiver shares it without a copy.
enum class Payloads { kLikeSockets, kHandedOver };

class MemoryNetwork {
 public:
  explicit MemoryNetwork(Payloads payloads = Payloads::kLikeSockets);
  ~MemoryNetwork();

  // Returns the frames and bytes sent and delivered since the network was made.
  Counters totals() const;
  // Peers of connections that are accepted from now on count as having proven this, as peers over a network would; for tests.
  void SetProofOfAccepted(PeerProof proof);

 private:
  friend class MemoryTransport;
  const std::shared_ptr<MemoryRegistry> registry_;
};

class MemoryTransport : public Transport {
 public:
  // Without timers, Connect to an address without a listener fails at once.
  MemoryTransport(MemoryNetwork* network, Executor* executor, Timers* timers = nullptr, const Limits& limits = {});
  ~MemoryTransport() override;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, AcceptCallback on_accept) override;
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override;

 private:
  struct Host;

  const std::shared_ptr<MemoryRegistry> registry_;
  const std::shared_ptr<Host> host_;
};

}  // namespace pw::net
