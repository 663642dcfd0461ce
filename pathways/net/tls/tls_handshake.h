// TlsHandshake: makes an encrypted connection of a connected socket, within a time limit.
//
// Invariant TH-1: `done` is called exactly once, on the loop, never inside Begin: with the socket, an error, or Cancel's status.
// Runs on an event loop; its pending operations keep it alive.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/net/sockets/asio.h"
#include "pathways/net/sockets/asio_connection.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/tls_channel.h"

namespace pw::net {

class TlsHandshake : public std::enable_shared_from_this<TlsHandshake> {
 public:
  // UNAUTHENTICATED: the peer is not of the cluster or does not speak TLS, so a retry is useless. UNAVAILABLE: it went away or
  // was too slow.
  using Done = std::function<void(absl::StatusOr<EstablishedSocket>)>;

  // `peer`: its name, for messages.
  TlsHandshake(std::shared_ptr<EventLoop> loop, Fd fd, std::shared_ptr<Tls> tls, TlsChannel::Side side, std::string peer,
               Done done);
  // Begins the handshake. Called once, on the loop.
  void Begin(absl::Duration limit);
  // Ends the handshake with `reason`. Called on the loop.
  void Cancel(const absl::Status& reason);

 private:
  void Step();
  void Wait(asio::posix::stream_descriptor::wait_type what);
  void End(absl::StatusOr<EstablishedSocket> result);

  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<Tls> tls_;
  const TlsChannel::Side side_;
  const std::string peer_;
  Done done_;  // empty once called
  Fd fd_;      // until Begin
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer deadline_;
  std::unique_ptr<TlsChannel> channel_;
  uint64_t shutdown_hook_ = 0;
};

}  // namespace pw::net
