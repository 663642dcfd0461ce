// ClientStream: one connection to a server that is none of the cluster's: an identity provider, an object store. With TLS or plain.
//
// It blocks, so it belongs on a thread that may wait. With TLS the server must show a certificate for its name, of an authority that this machine
// trusts. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/openssl_ptr.h"

namespace pw::net {

// How long to wait for a server.
struct Patience {
  absl::Duration limit = absl::Seconds(10);           // for all together; the system decides how long resolving the name takes
  absl::Duration silence = absl::InfiniteDuration();  // in which no byte comes or goes
  int stop = -1;                                      // a descriptor: when it becomes readable, waiting ends; -1: none
};

struct RemoteServer {
  std::string host, port;
  bool tls = true;
  std::string authorities;  // a file of certificates (PEM) that are trusted; empty: the system's
};

class ClientStream {
 public:
  // UNAVAILABLE says what went wrong. INVALID_ARGUMENT: the authorities cannot be read.
  static absl::StatusOr<std::unique_ptr<ClientStream>> Open(const RemoteServer& server, const Patience& patience);

  absl::Status Write(absl::string_view bytes);
  // Returns how many bytes were read; 0: the server has closed.
  absl::StatusOr<size_t> Read(absl::Span<char> space);

 private:
  ClientStream(Fd fd, SslPtr ssl, const Patience& patience, absl::Time deadline)
      : fd_(std::move(fd)), ssl_(std::move(ssl)), patience_(patience), deadline_(deadline) {}

  const Fd fd_;
  const SslPtr ssl_;  // null: plain
  const Patience patience_;
  const absl::Time deadline_;
};

}  // namespace pw::net
