// Sockets: wraps the system calls behind connections and returns errors as absl::Status. All descriptors made here are non-blocking
// and close-on-exec.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
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

// Returns `address` as a socket address; its size is 0 if the host name needs a lookup.
SocketAddress WithoutLookup(const Address& address);
// A path that begins with '@' is the name of an abstract socket.
SocketAddress UnixSocketAddress(const std::string& path);
Address FromSocketAddress(const SocketAddress& address);

// Listens on `address`; looks its host up if necessary. Replaces a socket file whose owner is gone. Only this process's user can
// connect to the new file. `type` is SOCK_SEQPACKET for packets.
absl::StatusOr<Fd> ListenSocket(const Address& address, int type = SOCK_STREAM);
// Returns the address to which a socket is bound, with the real port.
SocketAddress LocalAddress(int fd);

// Begins to connect. Returns 0 or the errno; EINPROGRESS is usual.
int StartConnect(const SocketAddress& address, Fd* fd, int type = SOCK_STREAM);
// Returns the result of the attempt once the socket is writable: 0 or the errno.
int FinishConnect(int fd);

// Sets the options of every stream connection: no delay, keep-alive, few unsent bytes in the kernel.
void ConfigureStream(int fd);
// Makes the kernel close a TCP connection when sent bytes stay unacknowledged for this time. Infinite: changes nothing.
void LimitSilence(int fd, absl::Duration limit);
// Returns the name of an accepted socket's peer for messages: "tcp:10.0.0.7:41234", "unix:/run/x.sock (pid 71)".
std::string NameAccepted(int fd, const SocketAddress& remote, const Address& listener);

// PERMISSION_DENIED unless the process at the other end of a Unix socket runs as this one's user or as root.
absl::Status CheckSameUser(int fd, absl::string_view peer);

// Returns an errno as a status; `what` opens the message.
absl::Status SocketError(int error, absl::string_view what);

}  // namespace pw::net
