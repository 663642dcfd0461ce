#include "pathways/net/sockets/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"

namespace pw::net {
namespace {

constexpr int kBacklog = 1024;
// Unsent bytes that the kernel accepts before it reports "not writable". The urgent lane cannot overtake these bytes.
constexpr int kNotSentLowWater = 512 << 10;

void SetOption(int fd, int level, int name, int value) { ::setsockopt(fd, level, name, &value, sizeof(value)); }

std::string ErrorText(int error) {
  char buffer[128];
  return ::strerror_r(error, buffer, sizeof(buffer));
}

Fd NewSocket(int family, int type) { return Fd(::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

absl::StatusOr<SocketAddress> Resolve(const Address& address) {
  SocketAddress result = WithoutLookup(address);
  if (result.size != 0) return result;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &list); error != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen on ", ToString(address), ": the host is unknown (",
                                                   ::gai_strerror(error), "); write a name or number of this machine"));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::memcpy(&result.storage, list->ai_addr, list->ai_addrlen);
  result.size = list->ai_addrlen;
  // The port is at the same offset in both families.
  reinterpret_cast<sockaddr_in*>(&result.storage)->sin_port = htons(address.port);
  return result;
}

// Returns true for a socket file that refuses connections: its process is gone.
bool IsStaleSocketFile(const SocketAddress& address) {
  Fd probe;
  return StartConnect(address, &probe) == ECONNREFUSED;
}

absl::Status ListenError(int error, const Address& address) {
  const std::string what = absl::StrCat("cannot listen on ", ToString(address));
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(
          absl::StrCat(what, ": the address is in use; stop the process that has it, or choose another",
                       address.kind == Address::Kind::kTcp ? " port (port 0 takes a free one)" : " path"));
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": the host is not an address of this machine; 0.0.0.0 listens on all of them"));
    case ENOENT:
    case ENOTDIR:
      return absl::InvalidArgumentError(absl::StrCat(what, ": the folder of the socket does not exist; create it first"));
    default:
      return SocketError(error, what);
  }
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

SocketAddress UnixSocketAddress(const std::string& path) {
  SocketAddress result;
  auto* un = reinterpret_cast<sockaddr_un*>(&result.storage);
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path, path.data(), path.size());
  const bool abstract = path[0] == '@';
  if (abstract) un->sun_path[0] = '\0';
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (abstract ? 0 : 1));
  return result;
}

SocketAddress WithoutLookup(const Address& address) {
  if (address.kind == Address::Kind::kUnix) return UnixSocketAddress(address.path);
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (::inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    result.size = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    result.size = sizeof(sockaddr_in6);
  }
  return result;
}

Address FromSocketAddress(const SocketAddress& address) {
  Address result;
  char text[INET6_ADDRSTRLEN] = "";
  if (address.family() == AF_UNIX) {
    const auto* un = reinterpret_cast<const sockaddr_un*>(&address.storage);
    const size_t size = address.size - offsetof(sockaddr_un, sun_path);
    result.kind = Address::Kind::kUnix;
    result.path = std::string(un->sun_path, size);
    if (!result.path.empty() && result.path[0] == '\0') {
      result.path[0] = '@';
    } else {
      result.path = result.path.c_str();  // up to its terminating zero
    }
  } else if (address.family() == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    result.host = ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    result.port = ntohs(v6->sin6_port);
  } else {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    result.host = ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    result.port = ntohs(v4->sin_port);
  }
  return result;
}

absl::StatusOr<Fd> ListenSocket(const Address& address, int type) {
  PW_ASSIGN_OR_RETURN(const SocketAddress where, Resolve(address));
  Fd fd = NewSocket(where.family(), type);
  if (!fd.valid()) return ListenError(errno, address);
  if (address.kind == Address::Kind::kTcp) SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // A Unix socket's file has the mode that the socket had when it was bound.
  if (address.kind == Address::Kind::kUnix && ::fchmod(fd.get(), 0600) != 0) return ListenError(errno, address);
  int bound = ::bind(fd.get(), where.get(), where.size);
  if (bound != 0 && errno == EADDRINUSE && address.kind == Address::Kind::kUnix && IsStaleSocketFile(where)) {
    ::unlink(address.path.c_str());
    bound = ::bind(fd.get(), where.get(), where.size);
  }
  if (bound != 0 || ::listen(fd.get(), kBacklog) != 0) return ListenError(errno, address);
  return fd;
}

SocketAddress LocalAddress(int fd) {
  SocketAddress result;
  result.size = sizeof(result.storage);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&result.storage), &result.size);
  return result;
}

int StartConnect(const SocketAddress& address, Fd* fd, int type) {
  *fd = NewSocket(address.family(), type);
  if (!fd->valid()) return errno;
  return ::connect(fd->get(), address.get(), address.size) == 0 ? 0 : errno;
}

int FinishConnect(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  if (error != 0) return error;
  // Connecting to a port in the ephemeral range without a listener can connect a socket to itself.
  SocketAddress remote;
  remote.size = sizeof(remote.storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&remote.storage), &remote.size) != 0) return errno;
  if (remote.family() == AF_UNIX) return 0;
  const SocketAddress local = LocalAddress(fd);
  const bool self = local.size == remote.size && std::memcmp(&local.storage, &remote.storage, local.size) == 0;
  return self ? ECONNREFUSED : 0;
}

void ConfigureStream(int fd) {
  // On a Unix socket the TCP options fail, which is harmless.
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kNotSentLowWater);
  // With these, a vanished host is noticed after about half a minute, even if no data is sent.
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void LimitSilence(int fd, absl::Duration limit) {
  if (limit == absl::InfiniteDuration()) return;
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(absl::ToInt64Milliseconds(limit)));
  // That limit applies to sent bytes only. A connection that carries none is probed.
  const int pause = std::max(1, static_cast<int>(absl::ToInt64Seconds(limit) / 4));
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, pause);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause);
}

std::string NameAccepted(int fd, const SocketAddress& remote, const Address& listener) {
  if (remote.family() != AF_UNIX) return ToString(FromSocketAddress(remote));
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return ToString(listener);
  return absl::StrCat(ToString(listener), " (pid ", credentials.pid, ")");
}

absl::Status CheckSameUser(int fd, absl::string_view peer) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0)
    return SocketError(errno, absl::StrCat("cannot tell which user runs the process at ", peer));
  const uid_t own = ::geteuid();
  if (credentials.uid == own || credentials.uid == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the process at ", peer, " runs as user ", credentials.uid, ", this one as user ", own));
}

absl::Status SocketError(int error, absl::string_view what) {
  const std::string text = absl::StrCat(what, ": ", ErrorText(error));
  switch (error) {
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(absl::StrCat(text, "; raise the limit of open files (ulimit -n)"));
    case ENOBUFS:
    case ENOMEM:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace pw::net
