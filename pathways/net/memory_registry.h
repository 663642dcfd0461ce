// MemoryRegistry: who listens where in a MemoryNetwork, and who waits for somebody to listen. Any thread; calls back after its
// lock is released.
#pragma once

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
#include "pathways/net/memory_connection.h"

namespace pw::net {

class MemoryRegistry {
 public:
  // Gets the end that the listener's user will own.
  using Accept = std::function<void(std::shared_ptr<MemoryEnd>)>;
  // What a listener is to those who connect: how to make an end on its host, and how to hand it over.
  struct Listening {
    const void* owner;  // the host
    std::function<std::shared_ptr<MemoryEnd>(std::string peer)> make_end;
    Accept accept;
  };
  // Called once: with the listener, or with the reason for giving up.
  using Waiter = std::function<void(const absl::StatusOr<std::shared_ptr<Listening>>&)>;

  explicit MemoryRegistry(bool hands_over) : hands_over_(hands_over) {}

  // Returns the address with the real port. ALREADY_EXISTS where somebody listens.
  absl::StatusOr<std::string> Listen(Address address, std::shared_ptr<Listening> listening);
  void StopListening(const std::string& address, const Listening* listening);

  // Calls the waiter now or when somebody listens. The result names it for GiveUp.
  uint64_t WaitFor(const std::string& address, const void* owner, Waiter waiter);
  // Calls the waiter with `status`, unless it has been called.
  void GiveUp(uint64_t waiter, const absl::Status& status);
  // The host `owner` is gone: so are its listeners and waiters.
  void RemoveHost(const void* owner, const absl::Status& status);

  uint64_t NextName();
  bool hands_over() const { return hands_over_; }
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
