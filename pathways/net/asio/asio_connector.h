// Connector: one call of Transport::Connect. Resolves the host, tries its addresses in turn, and repeats after a short delay until
// it connects or times out. With TLS, the handshake is a part of connecting. Runs on an event loop; its pending operations keep it alive.
//
// Invariant CR-1: on_done is called exactly once, on the loop, even if the transport is shut down first.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pathways/net/address.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/sockets/asio.h"
#include "pathways/net/sockets/asio_connection.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/tls_handshake.h"
#include "pathways/net/transport.h"

namespace pw::net {

class Connector : public std::enable_shared_from_this<Connector> {
 public:
  Connector(std::shared_ptr<EventLoop> loop, Address address, absl::Duration timeout, const AsioOptions& options,
            Transport::ConnectCallback on_done);
  void Begin();  // any thread, once

 private:
  void OnLoop();
  void Resolve();
  void OnResolved(asio::error_code error, const asio::ip::tcp::resolver::results_type& results);
  void NextCandidate();
  void OnAttempted();
  void OnFailure(int error, std::string text);
  void Connected(Fd fd);
  void Established(EstablishedSocket socket);
  void Done(absl::StatusOr<std::unique_ptr<Connection>> result);
  absl::Status Failed(absl::string_view when) const;

  const std::shared_ptr<EventLoop> loop_;
  const Address address_;
  const absl::Duration timeout_;
  const AsioOptions options_;
  Transport::ConnectCallback on_done_;  // empty once called

  // Used on the loop only.
  asio::ip::tcp::resolver resolver_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer deadline_;
  asio::steady_timer retry_;
  std::shared_ptr<TlsHandshake> handshake_;  // null: none is under way
  std::vector<SocketAddress> candidates_;
  size_t candidate_ = 0;
  std::chrono::milliseconds backoff_;
  std::string last_failure_ = "no attempt was made";
  int last_error_ = 0;
  uint64_t shutdown_hook_ = 0;
};

}  // namespace pw::net
