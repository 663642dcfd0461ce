// The few socket calls that the wire needs. File descriptors are closed by their owner, a Socket.
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
  // Wakes everybody who reads or writes; the descriptor stays.
  void Shutdown();

 private:
  int fd_;
};

// `name` in the abstract namespace of this machine.
absl::StatusOr<Socket> ListenUnix(const std::string& name);
absl::StatusOr<Socket> ListenTcp(int* port);
absl::StatusOr<Socket> ConnectUnix(const std::string& name);
absl::StatusOr<Socket> ConnectTcp(const std::string& host, int port);
// Null, with its errno, if there is nobody (any more), or nothing left to make a socket of.
Socket Accept(const Socket& listener, int* error);

void SetNonBlocking(int fd);
// All of it, or an error. REQUIRES: a blocking socket.
absl::Status WriteAll(int fd, absl::Span<const absl::string_view> parts);

}  // namespace pw::pjrt_cpu
