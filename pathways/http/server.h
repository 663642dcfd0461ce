// Server: a small HTTP/1.1 server for operators and their tools. It answers one GET or HEAD on each connection and closes it. With a Tls it
// is an HTTPS server: a peer that speaks plain HTTP is told so, and gets nothing else.
//
// It owns a thread, which accepts, reads, writes and calls the handler. The handler may answer later, on any thread.
//
// Limits, because any peer that reaches the address may send any bytes:
//   - the head of a request has at most kMostHeadBytes (request.h), and no body
//   - an exchange takes at most `patience` from the connection to the last byte of the answer; then it is closed
//   - there are at most `connections` at a time. One more closes the oldest that has not sent its request yet. If all have sent
//     theirs, the new one is closed
//
// Invariants:
//   HS-1  no handler is called after the destructor has returned; answers that come later are dropped
//   HS-2  each exchange ends: answered, refused or closed after `patience`
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/http/request.h"
#include "pathways/net/tls/tls.h"

namespace pw::http {

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};  // further headers: our own names and values, never a peer's
};

class Server {
 public:
  using Answer = absl::AnyInvocable<void(Response) &&>;
  using Handler = std::function<void(const Request& request, Answer answer)>;
  struct Options {
    size_t connections = 32;
    absl::Duration patience = absl::Seconds(10);
    std::shared_ptr<net::Tls> tls = nullptr;  // null: nothing is encrypted
  };

  // Listens on HOST:PORT (port 0 takes a free one) or unix:PATH. INVALID_ARGUMENT: a bad address. ALREADY_EXISTS: in use.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address, Handler handler, const Options& options);
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const std::string& address, Handler handler) {
    return Listen(address, std::move(handler), Options());
  }
  ~Server();  // closes all connections. Must not run in the handler

  // Returns the address with the real port, as "tcp:HOST:PORT" or "unix:PATH".
  const std::string& address() const { return address_; }

 private:
  class Listening;
  explicit Server(std::shared_ptr<Listening> listening, std::string address);

  const std::shared_ptr<Listening> listening_;
  const std::string address_;
};

}  // namespace pw::http
