// AsioListener: accepts connections on one address and distributes them over the event loops of its transport.
//
// It delivers a connection once the peer is admitted. On a Unix socket, the peer must run as this process's user or as root. On
// TCP with TLS, the handshake must be done. Until then a peer costs a descriptor and some KiB; AsioOptions limits their time and
// number.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/net/address.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/handler_gate.h"
#include "pathways/net/sockets/asio.h"
#include "pathways/net/sockets/asio_connection.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/tls_handshake.h"
#include "pathways/net/transport.h"

namespace pw::net {

// Acceptor: the part of an AsioListener that pending operations on the loop share.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  // `fd` is listening. The first loop accepts.
  Acceptor(std::vector<std::shared_ptr<EventLoop>> loops, Fd fd, Address address, const AsioOptions& options,
           Transport::AcceptCallback on_accept);
  void Open();  // starts accepting
  // Stops accepting. Called once. After it returns no callback runs; the address becomes free soon after.
  void Abandon();

 private:
  void Arm();
  void AcceptAll();
  void AcceptOne(Fd fd, const SocketAddress& remote);
  void Greet(Fd fd, std::string peer);  // begins the TLS handshake
  void Deliver(EstablishedSocket socket, std::string peer);
  void Refused(const absl::Status& reason);
  void RetryLater(int error);
  void Release();

  const std::vector<std::shared_ptr<EventLoop>> loops_;
  const Address address_;
  const AsioOptions options_;
  Transport::AcceptCallback on_accept_;
  HandlerGate<Transport::AcceptCallback> gate_;

  // Used on the first loop only.
  Fd initial_fd_;  // until Open
  const int fd_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer retry_;
  uint64_t shutdown_hook_ = 0;
  std::list<std::shared_ptr<TlsHandshake>> handshakes_;  // the oldest first
  uint64_t refused_ = 0;
  size_t next_loop_ = 0;
  bool said_why_ = false;               // the current accept failure has been logged
  std::atomic<bool> released_ = false;  // written on the loop
};

class AsioListener : public Listener {
 public:
  AsioListener(std::shared_ptr<Acceptor> acceptor, std::string address)
      : acceptor_(std::move(acceptor)), address_(std::move(address)) {}
  ~AsioListener() override { acceptor_->Abandon(); }

  const std::string& address() const override { return address_; }

 private:
  const std::shared_ptr<Acceptor> acceptor_;
  const std::string address_;
};

}  // namespace pw::net
