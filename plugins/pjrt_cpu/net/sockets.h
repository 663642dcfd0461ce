// The socket calls that the wire needs. A Socket owns its file descriptor and closes it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pw::pjrt_cpu {

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Wakes all readers and writers; the descriptor stays open.
  void Shutdown();

 private:
  int fd_;
};

// Listens on `name` in the machine's abstract namespace.
absl::StatusOr<Socket> ListenUnix(const std::string& name);
// Listens on a free port of the address `host`; of all addresses if `host` is a name, or an address that this machine does not have itself (behind
// a translation of addresses).
absl::StatusOr<Socket> ListenTcp(const std::string& host, int* port);
absl::StatusOr<Socket> ConnectUnix(const std::string& name);
absl::StatusOr<Socket> ConnectTcp(const std::string& host, int port);
// Returns an invalid socket and sets `error` if no connection waits, or no descriptor is free.
Socket Accept(const Socket& listener, int* error);

void SetNonBlocking(int fd);
// Writes everything or returns an error. REQUIRES: a blocking socket.
absl::Status WriteAll(int fd, absl::Span<const absl::string_view> parts);

}  // namespace pw::pjrt_cpu
