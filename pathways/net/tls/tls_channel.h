// TlsChannel: a Channel that encrypts one connection by TLS 1.3 (tls.h). Its user calls Handshake until that is done.
//
// OpenSSL never touches the socket. It reads from and writes to buffers here. So one system call carries several records, and the
// memory that a peer can make us keep is bounded.
//
// Invariants:
//   TN-1  until the handshake is done, at most kMostHandshakeBytes of the peer's bytes are read
//   TN-2  at most kOutBytes and one record wait to be sent
//   TN-3  both directions change their keys long before AES-GCM's limit for one key (RFC 8446, 5.5)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/net/sockets/channel.h"
#include "pathways/net/tls/tls.h"
#include "pathways/net/transport.h"

struct bio_st;         // OpenSSL's BIO
struct bio_method_st;  // BIO_METHOD

namespace pw::net {

class TlsChannel final : public Channel {
 public:
  enum class Side { kConnects, kAccepts };
  static constexpr size_t kMostHandshakeBytes = 8 << 10;
  static constexpr size_t kRekeyBytes = size_t{64} << 30;

  // `fd` is connected, non-blocking and outlives this. This side changes its key after `rekey_bytes`.
  static absl::StatusOr<std::unique_ptr<TlsChannel>> Create(int fd, const Tls& tls, Side side, size_t rekey_bytes = kRekeyBytes);
  ~TlsChannel() override;

  enum class Step { kDone, kReadable, kWritable, kLost, kRefused };
  // Continues the handshake. kReadable, kWritable: call again when the socket is readable or writable. kLost: the peer went away,
  // or gave up for the reason failure(). kRefused: this side refuses the peer for the reason failure().
  Step Handshake();
  const std::string& failure() const { return failure_; }
  // Returns the proof that the peer has shown. REQUIRES: the handshake is done.
  PeerProof proof() const;

  // --- Channel ---
  ssize_t Read(absl::Span<const iovec> space) override;
  bool may_hold_input() const override { return may_hold_input_; }
  ssize_t Write(absl::Span<iovec> pieces) override;
  int Flush() override;
  void SayGoodbye() override;

 private:
  friend struct TlsBio;
  TlsChannel(int fd, ssl_st* ssl, size_t rekey_bytes);
  int FlushHere();
  ssize_t ReadEnded(int error);
  bool WriteRecord(absl::Span<iovec> pieces, size_t* piece, size_t* offset, size_t* taken);
  void Explain();

  const int fd_;
  const size_t rekey_bytes_;
  std::mutex mu_;
  ssl_st* const ssl_;        // guarded by mu_, as all below
  std::vector<uint8_t> in_;  // [in_begin_, in_end_) has arrived and OpenSSL has not read it yet
  size_t in_begin_ = 0, in_end_ = 0;
  std::vector<uint8_t> out_;  // to be sent: [out_begin_, end)
  size_t out_begin_ = 0;
  std::vector<uint8_t> record_;  // small pieces become one record
  size_t handshake_bytes_ = 0;
  size_t keyed_bytes_ = 0;  // written since the last change of keys
  bool established_ = false;
  bool ended_ = false;    // the peer sends no more
  int socket_error_ = 0;  // the errno of reading the socket
  int read_error_ = 0;    // the errno with which Read fails from now on
  std::string failure_;
  bool may_hold_input_ = true;  // used by Read's thread
};

}  // namespace pw::net
