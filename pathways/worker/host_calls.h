// Host calls: running programs that call a Python function of their client.
//
// The device runtime hands over a call from one of its threads; it travels to the controller with its operands, and the
// computation goes on when the reply arrives. Calls of a session that ends, and all calls when the controller is lost, fail, so
// that no device waits for ever.
//
// Invariants:
//   HT-1  every call is completed exactly once
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "pathways/worker/core.h"

namespace pw::worker {

class HostCalls {
 public:
  // Takes over the runtime's host callbacks until it is destroyed.
  explicit HostCalls(Core* core);
  ~HostCalls();

  void Reply(const pathways::v1::HostReply& reply, const Bytes& payload);
  void ReleaseOwner(SessionId session);

 private:
  using DoneFn = std::function<void(device::HostCallReply)>;
  struct Pending {
    SessionId session;
    DoneFn done;
  };
  void Start(const device::HostCallRequest& request, DoneFn done);

  Core* const core_;
  uint64_t next_call_ = 1;
  absl::flat_hash_map<uint64_t, Pending> pending_;
};

}  // namespace pw::worker
