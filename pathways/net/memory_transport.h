// MemoryTransport: the Transport interface inside one process, for tests and the simulator. No sockets, no threads, no clock of
// its own.
//
// A MemoryNetwork is a world of addresses; every MemoryTransport is one host in it, with the executor on which its callbacks and
// handlers run. Addresses are written as for real transports and mean nothing beyond their text (port 0 takes a free one). With
// an executor that runs tasks in a fixed order, everything that happens here happens in a fixed order.
//
// Invariants, beyond those of transport.h:
//   MT-1  a payload of one small aligned piece is shared with the receiver, any other is copied once; where payloads are handed
//         over, one of one aligned piece is shared whatever its size, and the receiver is not asked where it is to lie
//   MT-2  a frame counts as waiting on its lane until the receiver's handler is called with it; Close drops what waits on the
//         bulk lane
//   MT-3  destroying a transport closes its connections with CANCELLED; the handlers hear of it on the executor, afterwards
// Network and executor outlive the transport, and everything made by it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pathways/base/executor.h"
#include "pathways/base/timer_queue.h"
#include "pathways/net/transport.h"

namespace pw::net {

class MemoryRegistry;
class MemoryEnd;

// Handed over: what is sent stays as it is for as long as somebody has it, and large ones cost nothing.
enum class Payloads { kLikeSockets, kHandedOver };

class MemoryNetwork {
 public:
  explicit MemoryNetwork(Payloads payloads = Payloads::kLikeSockets);
  ~MemoryNetwork();

  // All that was ever sent and delivered here.
  Counters totals() const;

 private:
  friend class MemoryTransport;
  const std::shared_ptr<MemoryRegistry> registry_;
};

class MemoryTransport : public Transport {
 public:
  // Without timers, connecting to an address where nobody listens fails at once.
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
