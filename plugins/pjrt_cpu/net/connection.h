// Connection: a socket between two processes of a computation. One over TCP is encrypted, one of this machine is not.
//
// Both ends have the key from the host, which gives processes each other's addresses (wire.h). It is the pre-shared key of TLS 1.3 (RFC 8446, 4.2.11), so
// a handshake succeeds only between processes that know it, and no certificates are needed. Each connection also has a key exchange of its own: a key
// that becomes known later does not open what was recorded before.
//
// OpenSSL is linked statically, and its names are hidden: the wheel's libraries contain BoringSSL, which has the same names.
//
// One thread at a time may send, and one receive, but not both at the same time on an encrypted connection.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "plugins/pjrt_cpu/net/sockets.h"

struct ssl_st;      // OpenSSL's SSL
struct ssl_ctx_st;  // SSL_CTX

namespace pw::pjrt_cpu {

// The key of a process, as random numbers.
using Key = std::array<uint64_t, 3>;

absl::StatusOr<Key> RandomKey();
// Compares them in constant time.
bool SameKey(const Key& a, const Key& b);
std::string KeyText(const Key& key);  // hexadecimal
absl::StatusOr<Key> ParseKey(absl::string_view text);

class Connection {
 public:
  // An encrypted connection may receive this much before Greeted: the handshake and a first message of some bytes.
  static constexpr size_t kMostGreetingBytes = 4096;
  // Sent with one key, 2^23 records. RFC 8446, 5.5 permits 2^24.5.
  static constexpr size_t kBytesPerKey = size_t{1} << 37;

  Connection() = default;
  // A connection that is not encrypted.
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}

  // Encrypts a connected socket, within the time limit for each of its steps. UNAVAILABLE: the other end does not have the key, or does not speak TLS.
  static absl::StatusOr<Connection> Encrypt(Socket socket, const Key& key, std::chrono::milliseconds limit, size_t bytes_per_key = kBytesPerKey);
  // Encrypts an accepted socket, which does not block. Receive goes on with the handshake. `key` outlives the connection.
  static absl::StatusOr<Connection> Accept(Socket socket, const Key& key);

  int fd() const { return socket_.fd(); }
  bool valid() const { return socket_.valid(); }
  bool encrypted() const { return ssl_ != nullptr; }
  void Shutdown() { socket_.Shutdown(); }

  // Sends everything or returns an error. REQUIRES: a blocking socket.
  absl::Status Send(absl::Span<const absl::string_view> parts);
  // As recv: the number of bytes, 0 at the end, or -1 and errno. An encrypted connection may have more bytes until the error is EAGAIN.
  ssize_t Receive(char* into, size_t room);
  // The other end has shown who it is: lifts the limit on what it may send.
  void Greeted();

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };

  absl::Status SendRecord(const char* bytes, size_t size);

  Socket socket_;
  std::unique_ptr<ssl_st, Free> ssl_;
  std::vector<char> record_;  // of small parts
  size_t bytes_per_key_ = kBytesPerKey;
  size_t keyed_bytes_ = 0;  // sent since the last change of the key
  bool greeted_ = false;
};

}  // namespace pw::pjrt_cpu
