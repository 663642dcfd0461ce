// AsioTransport: Transport over TCP and Unix sockets.
//
// It owns a few event loops with one thread each (one loop suffices below some GB/s). Each connection belongs to one loop for life,
// and that loop's thread calls its handler. Callbacks of Connect and Listen also run on a loop.
//
// Invariants, beyond those of transport.h:
//   AT-1  the destructor closes open connections (OnClosed with CANCELLED) and fails pending Connect calls, then joins its threads;
//         no callback runs after it returns. It must not run in one of the transport's own callbacks. Listeners and connections may
//         be destroyed later; no other thread may be inside one of their calls meanwhile
//   AT-2  with several threads, two handlers must not destroy each other's connection at the same time
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/net/tls/tls.h"
#include "pathways/net/transport.h"

namespace pw::net {

class EventLoop;

struct AsioOptions {
  int threads = 1;
  Limits limits;
  // Small frames leave from the sending thread if no other thread is writing to the connection. See bench/net_bench.cc.
  bool inline_sends = true;
  // Closes a TCP connection when the peer's machine has acknowledged no sent bytes for this time. Infinite: the kernel's own
  // limit applies, some 15 minutes.
  absl::Duration longest_silence = absl::InfiniteDuration();
  // Encrypts TCP connections, and decides which peers to trust there. Null: TCP connections are plain, and their peers prove
  // nothing (PeerProof::kOpen). Unix sockets are always plain; only processes of the same user, and of root, can connect to them.
  std::shared_ptr<Tls> tls;
  // Limits for TCP peers that have not completed the TLS handshake with a listener: the time of each, and their number. One peer
  // more drops the oldest, so that idle strangers do not keep others out.
  absl::Duration handshake_limit = absl::Seconds(5);
  size_t most_handshakes = 128;
  bool retry_connects = true;  // false: Connect fails at the first failure, instead of waiting for a peer that is starting
};

class AsioTransport : public Transport {
 public:
  explicit AsioTransport(const AsioOptions& options = {});
  ~AsioTransport() override;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, AcceptCallback on_accept) override;
  void Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) override;
  absl::StatusOr<std::unique_ptr<FileListener>> ListenForFiles() override;
  absl::StatusOr<std::unique_ptr<FileSocket>> ConnectForFiles(const std::string& address, const std::string& key) override;

 private:
  const AsioOptions options_;
  std::vector<std::shared_ptr<EventLoop>> loops_;
  std::atomic<size_t> next_loop_ = 0;
};

}  // namespace pw::net
