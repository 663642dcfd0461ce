// Sockets: the system calls behind connections, with errors as absl::Status. Everything made here is non-blocking and
// close-on-exec.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/net/address.h"

namespace pw::net {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// `address` as a socket address, if no name has to be looked up; otherwise size is 0.
SocketAddress WithoutLookup(const Address& address);
SocketAddress UnixSocketAddress(const std::string& path);
Address FromSocketAddress(const SocketAddress& address);

// Listens on `address`, looking its host up if it must. A socket file whose owner is gone is replaced.
absl::StatusOr<Fd> ListenSocket(const Address& address);
// Where a socket is bound: the real port.
SocketAddress LocalAddress(int fd);

// Begins to connect; 0, or the errno. EINPROGRESS is the usual answer.
int StartConnect(const SocketAddress& address, Fd* fd);
// After the socket has become writable: 0, or the errno of the attempt.
int FinishConnect(int fd);

// No delay, keep-alive: what every stream of ours wants.
void ConfigureStream(int fd);
// How messages name the other end of an accepted socket: "tcp:10.0.0.7:41234", "unix:/run/x.sock (pid 71)".
std::string NameAccepted(int fd, const SocketAddress& remote, const Address& listener);

// An errno as a status; `what` opens the message.
absl::Status SocketError(int error, absl::string_view what);

}  // namespace pw::net
