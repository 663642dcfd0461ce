// AsioTransport: Transport over TCP and Unix sockets.
//
// It owns a few event loops, one thread each (one loop is plenty below some GB/s). A connection belongs to one loop for life, and
// that loop's thread runs its handler; callbacks of Connect and Listen run on a loop too.
//
// Invariants, beyond those of transport.h:
//   AT-1  destroying the transport closes what is still open (OnClosed with CANCELLED) and fails what is still connecting, then
//         joins its threads; after that no callback runs. Not from a callback of its own. Listeners and connections may be
//         destroyed later; no other thread may be inside a call of theirs meanwhile
//   AT-2  with several threads, two handlers must not destroy each other's connection at the same time
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "pathways/net/transport.h"

namespace pw::net {

class EventLoop;

struct AsioOptions {
  int threads = 1;
  Limits limits;
  // Small frames leave from the sending thread where nobody is sending on the connection already. See bench/net_bench.cc.
  bool inline_sends = true;
};

class AsioTransport : public Transport {
 public:
  explicit AsioTransport(const AsioOptions& options = {});
  ~AsioTransport() override;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, AcceptCallback on_accept) override;
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override;

 private:
  const AsioOptions options_;
  std::vector<std::shared_ptr<EventLoop>> loops_;
  std::atomic<size_t> next_loop_ = 0;
};

}  // namespace pw::net
