#include "plugins/pjrt_cpu/net/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace pw::pjrt_cpu {
namespace {

absl::Status Failure(absl::string_view what) { return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno))); }

socklen_t UnixAddress(const std::string& name, sockaddr_un* address) {
  std::memset(address, 0, sizeof(*address));
  address->sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

void NoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

void Socket::Shutdown() {
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
}

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

absl::StatusOr<Socket> ListenUnix(const std::string& name) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t size = UnixAddress(name, &address);
  if (!socket.valid() || bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(socket.fd(), 128) != 0) {
    return Failure("cannot listen for other processes of this machine");
  }
  SetNonBlocking(socket.fd());
  return socket;
}

absl::StatusOr<Socket> ListenTcp(const std::string& host, int* port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  const auto listen_there = [&] {
    return bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(socket.fd(), 128) == 0;
  };
  bool listens = inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1 && listen_there();
  if (!listens) {
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    listens = listen_there();
  }
  if (!listens || getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Failure("cannot listen for processes of other machines");
  }
  *port = ntohs(address.sin_port);
  SetNonBlocking(socket.fd());
  return socket;
}

absl::StatusOr<Socket> ConnectUnix(const std::string& name) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t size = UnixAddress(name, &address);
  if (!socket.valid() || connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), size) != 0) return Failure("connecting");
  return socket;
}

absl::StatusOr<Socket> ConnectTcp(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat("host name ", host, ": ", gai_strerror(error)));
  }
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool connected = socket.valid() && connect(socket.fd(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  if (!connected) return Failure(absl::StrCat("connecting to ", host, ":", port));
  NoDelay(socket.fd());
  return socket;
}

Socket Accept(const Socket& listener, int* error) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  *error = socket.valid() ? 0 : errno;
  if (socket.valid()) NoDelay(socket.fd());
  return socket;
}

absl::Status WriteAll(int fd, absl::Span<const absl::string_view> parts) {
  std::vector<iovec> left;
  for (absl::string_view part : parts) {
    if (!part.empty()) left.push_back({const_cast<char*>(part.data()), part.size()});
  }
  size_t first = 0;
  while (first < left.size()) {
    msghdr message{};
    message.msg_iov = left.data() + first;
    message.msg_iovlen = std::min<size_t>(left.size() - first, 1024);
    ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failure("sending");
    for (; first < left.size() && n >= static_cast<ssize_t>(left[first].iov_len); ++first) n -= left[first].iov_len;
    if (first == left.size()) break;
    left[first].iov_base = static_cast<char*>(left[first].iov_base) + n;
    left[first].iov_len -= n;
  }
  return absl::OkStatus();
}

}  // namespace pw::pjrt_cpu
