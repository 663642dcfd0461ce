// Exchange: one connection of a Server. It reads a request, passes it on, writes the answer and closes. It lives on the server's
// event loop; only the Answer that it passes on may be called on any thread.
//
//   greeting ──TLS──► reading ──request──► answering ──Answer──► writing ──► closed
//   Without TLS it begins with reading. Every state becomes closed after `patience`, or when the peer is gone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "pathways/http/request.h"
#include "pathways/http/server.h"
#include "pathways/net/sockets/asio.h"
#include "pathways/net/sockets/channel.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/tls.h"
#include "pathways/net/tls/tls_channel.h"

namespace pw::http {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // `pass` receives a complete request; `closed` is called once, on the loop, and must not destroy the loop.
  using Pass = std::function<void(const Request&, Server::Answer)>;
  using Closed = std::function<void(Exchange*)>;

  // `tls`: null: nothing is encrypted.
  Exchange(std::shared_ptr<net::EventLoop> loop, net::Fd fd, std::shared_ptr<net::Tls> tls, Pass pass, Closed closed);
  void Start(absl::Duration patience);
  void Close();
  // Returns whether its request has not arrived yet.
  bool reading() const { return state_ == State::kGreeting || state_ == State::kReading; }

 private:
  enum class State { kGreeting, kReading, kAnswering, kWriting, kDraining, kClosed };

  void Await(asio::posix::stream_descriptor::wait_type what, void (Exchange::*then)());
  void BeginGreeting();
  void Greet();
  void Read();
  void Reply(const Response& response);
  void Write();
  void Drain();

  const std::shared_ptr<net::EventLoop> loop_;
  const std::shared_ptr<net::Tls> tls_;
  const Pass pass_;
  Closed closed_;
  net::Fd initial_fd_;  // until Start
  const int fd_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer timer_;
  std::unique_ptr<net::Channel> channel_;  // from Start
  net::TlsChannel* greeting_ = nullptr;    // `channel_` while the peers agree on their keys
  State state_ = State::kReading;
  RequestParser parser_;
  std::string output_;
  size_t written_ = 0;
};

}  // namespace pw::http
