#include "pathways/net/tls/tls_channel.h"

#include <openssl/x509v3.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/net/tls/certificates.h"
#include "pathways/net/tls/openssl_ptr.h"

namespace pw::net {
namespace {

constexpr size_t kRecordBytes = 16 << 10;  // the largest record of TLS
// The input buffer begins small, for the many connections that carry little, and doubles when one read has filled it.
constexpr size_t kFirstInBytes = 4 << 10;
constexpr size_t kMostInBytes = 128 << 10;
constexpr size_t kOutBytes = 128 << 10;

}  // namespace

// Presents the buffers of a channel to OpenSSL as its socket. Called inside OpenSSL's functions, so under the channel's lock.
struct TlsBio {
  static TlsChannel* ChannelOf(BIO* bio) { return static_cast<TlsChannel*>(BIO_get_data(bio)); }

  // Fills the input buffer from the socket. Returns false if nothing came.
  static bool Fill(TlsChannel* c) {
    if (c->in_.empty() || (c->in_end_ == c->in_.size() && c->established_ && c->in_.size() < kMostInBytes)) {
      c->in_.resize(std::max(kFirstInBytes, 2 * c->in_.size()));
    }
    ssize_t n = 0;
    do {
      n = ::recv(c->fd_, c->in_.data(), c->in_.size(), MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    c->in_begin_ = 0;
    c->in_end_ = n > 0 ? static_cast<size_t>(n) : 0;
    if (n == 0) c->ended_ = true;
    if (n < 0) c->socket_error_ = errno;
    return n > 0;
  }

  static int Read(BIO* bio, char* out, size_t wanted, size_t* got) {
    TlsChannel* const c = ChannelOf(bio);
    BIO_clear_retry_flags(bio);
    if (c->in_begin_ == c->in_end_ && !Fill(c)) {
      if (!c->ended_ && (c->socket_error_ == EAGAIN || c->socket_error_ == EWOULDBLOCK)) BIO_set_retry_read(bio);
      return 0;
    }
    *got = std::min(wanted, c->in_end_ - c->in_begin_);
    if (!c->established_) {
      c->handshake_bytes_ += *got;
      if (c->handshake_bytes_ > TlsChannel::kMostHandshakeBytes) {
        c->failure_ = "it sent more than a greeting needs";
        return 0;
      }
    }
    std::memcpy(out, c->in_.data() + c->in_begin_, *got);
    c->in_begin_ += *got;
    return 1;
  }

  static int Write(BIO* bio, const char* data, size_t size, size_t* written) {
    TlsChannel* const c = ChannelOf(bio);
    c->out_.insert(c->out_.end(), data, data + size);
    *written = size;
    return 1;
  }

  static long Control(BIO*, int command, long, void*) {  // NOLINT(google-runtime-int): OpenSSL's type
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static BIO_METHOD* Make() {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "pathways");
    BIO_meth_set_read_ex(method, &Read);
    BIO_meth_set_write_ex(method, &Write);
    BIO_meth_set_ctrl(method, &Control);
    return method;
  }
  static BIO_METHOD* Method() {
    static BIO_METHOD* const method = Make();
    return method;
  }
};

absl::StatusOr<std::unique_ptr<TlsChannel>> TlsChannel::Create(int fd, const Tls& tls, Side side, size_t rekey_bytes) {
  if (side == Side::kConnects && tls.is_for_visitors())
    return absl::InternalError("a server's TLS for visitors checks nobody, so nothing may connect with it");
  SslPtr ssl(tls.NewConnection());
  BioPtr bio(ssl == nullptr ? nullptr : BIO_new(TlsBio::Method()));
  if (bio == nullptr) return absl::ResourceExhaustedError(absl::StrCat("cannot begin a TLS connection: ", TakeOpensslError()));
  if (side == Side::kAccepts) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
  }
  std::unique_ptr<TlsChannel> channel(new TlsChannel(fd, ssl.get(), rekey_bytes));
  BIO_set_data(bio.get(), channel.get());
  BIO_set_init(bio.get(), 1);
  BIO* const raw = bio.release();
  SSL_set_bio(ssl.release(), raw, raw);  // the channel frees `ssl`, which frees `raw`
  return channel;
}

TlsChannel::TlsChannel(int fd, ssl_st* ssl, size_t rekey_bytes) : fd_(fd), rekey_bytes_(rekey_bytes), ssl_(ssl) {}

TlsChannel::~TlsChannel() { SSL_free(ssl_); }

void TlsChannel::Explain() {
  const long verified = SSL_get_verify_result(ssl_);  // NOLINT(google-runtime-int): OpenSSL's type
  if (!failure_.empty()) return ERR_clear_error();
  if (verified == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN) {
    ERR_clear_error();
    failure_ = "its certificate is not of the cluster's authority";
  } else if (verified != X509_V_OK) {
    ERR_clear_error();
    failure_ = absl::StrCat("its certificate is not valid: ", X509_verify_cert_error_string(verified));
  } else if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER) {
    ERR_clear_error();
    failure_ = "it does not speak TLS: is it a process of a cluster, and is TLS on there?";
  } else {
    failure_ = TakeOpensslError();
  }
}

TlsChannel::Step TlsChannel::Handshake() {
  std::lock_guard<std::mutex> lock(mu_);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  const int wanted = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_, result);
  established_ = result == 1;
  if (wanted != SSL_ERROR_NONE && wanted != SSL_ERROR_WANT_READ) {
    FlushHere();  // sends the alert that tells the peer the reason
    // A peer that sends an alert may succeed later: a worker has no certificate before it has joined.
    const bool alerted = ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SSL && ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET;
    if (alerted) {
      failure_ = TakeOpensslError();
      return Step::kLost;
    }
    if (failure_.empty() && (ended_ || (socket_error_ != 0 && socket_error_ != EAGAIN))) return Step::kLost;
    Explain();
    return Step::kRefused;
  }
  if (const int error = FlushHere(); error != 0) return error == EAGAIN || error == EWOULDBLOCK ? Step::kWritable : Step::kLost;
  return established_ ? Step::kDone : Step::kReadable;
}

PeerProof TlsChannel::proof() const {
  const CertificatePtr shown(SSL_get1_peer_certificate(ssl_));
  if (shown == nullptr) return PeerProof::kStranger;
  const auto plays = [&](Part part) {
    return X509_check_host(shown.get(), DnsNameOf(part), 0, X509_CHECK_FLAG_NO_WILDCARDS, nullptr) == 1;
  };
  if (plays(Part::kController)) return PeerProof::kController;
  return plays(Part::kWorker) ? PeerProof::kWorker : PeerProof::kStranger;
}

ssize_t TlsChannel::ReadEnded(int error) {
  if (error == 0) return 0;
  errno = read_error_ = error;
  return -1;
}

ssize_t TlsChannel::Read(absl::Span<const iovec> space) {
  std::lock_guard<std::mutex> lock(mu_);
  if (read_error_ != 0) return ReadEnded(read_error_);
  size_t got = 0;
  for (const iovec& piece : space) {
    for (size_t filled = 0; filled < piece.iov_len;) {
      size_t n = 0;
      ERR_clear_error();
      if (SSL_read_ex(ssl_, static_cast<uint8_t*>(piece.iov_base) + filled, piece.iov_len - filled, &n) == 1) {
        filled += n;
        got += n;
        continue;
      }
      const int why = SSL_get_error(ssl_, 0);
      may_hold_input_ = got != 0 && why != SSL_ERROR_WANT_READ;  // the end comes with the next call
      if (got != 0) return static_cast<ssize_t>(got);
      if (why == SSL_ERROR_WANT_READ) {
        errno = EAGAIN;
        return -1;
      }
      ERR_clear_error();
      if (why == SSL_ERROR_ZERO_RETURN || ended_) return ReadEnded(0);
      FlushHere();  // the alert
      return ReadEnded(socket_error_ != 0 && socket_error_ != EAGAIN ? socket_error_ : EBADMSG);
    }
  }
  may_hold_input_ = true;
  return static_cast<ssize_t>(got);
}

// Writes one record of the pieces from (*piece, *offset) on, and advances both. Returns false if OpenSSL fails.
bool TlsChannel::WriteRecord(absl::Span<iovec> pieces, size_t* piece, size_t* offset, size_t* taken) {
  const auto* data = static_cast<const uint8_t*>(pieces[*piece].iov_base) + *offset;
  size_t size = std::min(kRecordBytes, pieces[*piece].iov_len - *offset);
  if (size < kRecordBytes) {
    record_.clear();
    for (size_t p = *piece, o = *offset; p < pieces.size() && record_.size() < kRecordBytes; ++p, o = 0) {
      const auto* from = static_cast<const uint8_t*>(pieces[p].iov_base) + o;
      record_.insert(record_.end(), from, from + std::min(kRecordBytes - record_.size(), pieces[p].iov_len - o));
    }
    data = record_.data();
    size = record_.size();
  }
  size_t written = 0;
  ERR_clear_error();
  if (size != 0 && SSL_write_ex(ssl_, data, size, &written) != 1) return false;
  *taken += written;
  for (*offset += written; *piece < pieces.size() && *offset >= pieces[*piece].iov_len; ++*piece)
    *offset -= pieces[*piece].iov_len;
  keyed_bytes_ += written;
  if (keyed_bytes_ >= rekey_bytes_) {
    keyed_bytes_ = 0;
    return SSL_key_update(ssl_, SSL_KEY_UPDATE_REQUESTED) == 1;
  }
  return true;
}

ssize_t TlsChannel::Write(absl::Span<iovec> pieces) {
  std::lock_guard<std::mutex> lock(mu_);
  if (const int error = FlushHere(); error != 0) {
    errno = error;
    return -1;
  }
  size_t piece = 0, offset = 0, taken = 0;
  while (piece < pieces.size() && out_.size() < kOutBytes) {
    if (!WriteRecord(pieces, &piece, &offset, &taken)) {
      ERR_clear_error();
      errno = EPIPE;  // the connection has failed, or was closed by either side
      return -1;
    }
  }
  FlushHere();  // an error comes with the next call
  return static_cast<ssize_t>(taken);
}

int TlsChannel::Flush() {
  std::lock_guard<std::mutex> lock(mu_);
  return FlushHere();
}

int TlsChannel::FlushHere() {
  while (out_begin_ < out_.size()) {
    const ssize_t n = ::send(fd_, out_.data() + out_begin_, out_.size() - out_begin_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    out_begin_ += static_cast<size_t>(n);
  }
  out_.clear();
  out_begin_ = 0;
  return 0;
}

void TlsChannel::SayGoodbye() {
  std::lock_guard<std::mutex> lock(mu_);
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
  FlushHere();
}

}  // namespace pw::net
