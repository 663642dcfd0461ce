// MemoryRegistry: the state that the hosts of one MemoryNetwork share (memory_transport.h: connections inside one process). It
// holds the listeners by address, and the Connect calls that wait for a listener. A MemoryTransport is one host of the network.
//
// Any thread. Callbacks run without the lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/net/address.h"
#include "pathways/net/in_memory/memory_connection.h"

namespace pw::net {

class MemoryRegistry {
 public:
  // Passes the listener's end of a new connection to the listener's user.
  using Accept = std::function<void(std::shared_ptr<MemoryEnd>)>;
  // One listener. For each Connect, the connecting host calls make_end, joins the new end with its own, and calls accept.
  struct Listening {
    const void* owner;  // identifies the listener's host
    std::function<std::shared_ptr<MemoryEnd>(std::string peer)> make_end;
    Accept accept;
  };
  // Called once, with the listener or with the reason that Connect failed.
  using Waiter = std::function<void(const absl::StatusOr<std::shared_ptr<Listening>>&)>;

  // `hands_over`: connections share payloads with the receiver instead of copying them (Payloads::kHandedOver).
  explicit MemoryRegistry(bool hands_over) : hands_over_(hands_over) {}

  // Adds a listener. Returns the address with the real port; ALREADY_EXISTS if the address is in use.
  absl::StatusOr<std::string> Listen(Address address, std::shared_ptr<Listening> listening);
  // Removes this listener. Does nothing if another one has the address.
  void StopListening(const std::string& address, const Listening* listening);

  // Calls `waiter` now, or once there is a listener at `address`. `owner` is the connecting host. Returns an id for GiveUp.
  uint64_t WaitFor(const std::string& address, const void* owner, Waiter waiter);
  // Calls the waiter with `status`, unless it has been called already.
  void GiveUp(uint64_t waiter, const absl::Status& status);
  // Removes the listeners of the host `owner`, and calls its waiters with `status`.
  void RemoveHost(const void* owner, const absl::Status& status);

  // Returns a number that no other connection of the network has in its name.
  uint64_t NextName();
  bool hands_over() const { return hands_over_; }
  // The proof of the peers of connections that are accepted from now on.
  std::atomic<PeerProof> proof_of_accepted = PeerProof::kOwn;
  // The counters of the whole network; connections add to them.
  const std::shared_ptr<MemoryTotals>& totals() const { return totals_; }

 private:
  struct Waiting {
    std::string address;
    const void* owner;
    Waiter waiter;
  };

  const bool hands_over_;
  const std::shared_ptr<MemoryTotals> totals_ = std::make_shared<MemoryTotals>();
  std::mutex mu_;
  std::map<std::string, std::shared_ptr<Listening>> listening_;  // guarded by mu_, as all below
  std::map<uint64_t, Waiting> waiting_;
  uint64_t next_waiter_ = 1;
  uint64_t next_name_ = 1;
  uint16_t next_port_ = 40000;
};

}  // namespace pw::net
