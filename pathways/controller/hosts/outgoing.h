// Outgoing: counts the bytes of each session that wait in the controller for their hosts. Bytes for several hosts count once,
// until the last of these hosts has them. Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/ids.h"

namespace pw::controller {

class Outgoing {
 public:
  // Calls `drained` each time the session's bytes have become fewer, inside Done and RemoveHost.
  void Watch(SessionId session, std::function<void()> drained) { sessions_[session].drained = std::move(drained); }

  // REQUIRES: a transfer has one session and one size.
  void Add(SessionId session, HostId host, uint64_t transfer, int64_t bytes);
  // The host has received the transfer. Does nothing if it was not added for this host.
  void Done(HostId host, uint64_t transfer);
  void RemoveHost(HostId host);
  void RemoveSession(SessionId session);

  int64_t bytes(SessionId session) const;

 private:
  struct Transfer {
    SessionId session;
    int64_t bytes;
    std::vector<HostId> hosts;  // that do not have it yet
  };
  struct PerSession {
    int64_t bytes = 0;
    std::function<void()> drained;
  };
  void Drained(const std::vector<Transfer>& gone);

  absl::flat_hash_map<uint64_t, Transfer> transfers_;
  absl::flat_hash_map<SessionId, PerSession> sessions_;
};

}  // namespace pw::controller
