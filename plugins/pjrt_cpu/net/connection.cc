#include "plugins/pjrt_cpu/net/connection.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace pw::pjrt_cpu {
namespace {

constexpr unsigned char kCipherNumber[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256
constexpr absl::string_view kIdentity = "pathways-collectives";
constexpr size_t kRecordBytes = 16 << 10;         // TLS's largest
constexpr size_t kReadAheadBytes = 256 << 10;     // read by one system call

std::string TakeError() {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  ERR_clear_error();
  return reason == nullptr ? "no reason given" : reason;
}

// OpenSSL's own socket method raises SIGPIPE, so this one replaces its write.
int WriteQuietly(BIO* bio, const char* bytes, int size) {
  int fd = -1;
  BIO_get_fd(bio, &fd);
  BIO_clear_retry_flags(bio);
  ssize_t n;
  do {
    n = send(fd, bytes, size, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

const BIO_METHOD* QuietSocket() {
  static const BIO_METHOD* const method = [] {
    const BIO_METHOD* socket = BIO_s_socket();
    BIO_METHOD* quiet = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");
    BIO_meth_set_write(quiet, &WriteQuietly);
    BIO_meth_set_read(quiet, BIO_meth_get_read(socket));
    BIO_meth_set_ctrl(quiet, BIO_meth_get_ctrl(socket));
    BIO_meth_set_create(quiet, BIO_meth_get_create(socket));
    BIO_meth_set_destroy(quiet, BIO_meth_get_destroy(socket));
    return quiet;
  }();
  return method;
}

// Returns the session that a key stands for; the caller owns it.
SSL_SESSION* SessionOf(SSL* ssl) {
  const Key& key = *static_cast<const Key*>(SSL_get_app_data(ssl));
  SSL_SESSION* session = SSL_SESSION_new();
  if (session != nullptr && SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), sizeof(key)) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kCipherNumber)) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

int UseKey(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, size_t* identity_size, SSL_SESSION** session) {
  *session = nullptr;
  if (hash != nullptr && hash != EVP_sha256()) return 1;  // after a request to try again with a cipher that is not ours
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *identity_size = kIdentity.size();
  *session = SessionOf(ssl);
  return *session != nullptr ? 1 : 0;
}

int FindKey(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  *session = nullptr;
  if (absl::string_view(reinterpret_cast<const char*>(identity), size) == kIdentity) *session = SessionOf(ssl);
  return 1;
}

// The accepting end has no certificate, and the connecting one (Encrypt) accepts none. So without the key there is no connection.
SSL_CTX* MakeContext() {
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 || SSL_CTX_set1_groups_list(context, "X25519") != 1) {
    SSL_CTX_free(context);
    return nullptr;
  }
  SSL_CTX_set_num_tickets(context, 0);  // the accepting end sends nothing after the handshake
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_psk_use_session_callback(context, &UseKey);
  SSL_CTX_set_psk_find_session_callback(context, &FindKey);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  return context;
}

SSL* NewSsl(int fd, const Key& key) {
  static SSL_CTX* const context = MakeContext();
  SSL* ssl = context == nullptr ? nullptr : SSL_new(context);
  BIO* bio = ssl == nullptr ? nullptr : BIO_new(QuietSocket());
  if (bio == nullptr) {
    SSL_free(ssl);
    return nullptr;
  }
  BIO_set_fd(bio, fd, BIO_NOCLOSE);
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, const_cast<Key*>(&key));
  return ssl;
}

absl::Status NoMemory() { return absl::UnavailableError(absl::StrCat("no encrypted connection can be made: ", TakeError())); }

// A send or receive that takes longer fails. Zero: none does.
void SetLimit(int fd, std::chrono::milliseconds limit) {
  timeval time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1000);
  time.tv_usec = static_cast<suseconds_t>(limit.count() % 1000 * 1000);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

}  // namespace

absl::StatusOr<Key> RandomKey() {
  Key key;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), sizeof(key)) != 1)
    return absl::UnavailableError(absl::StrCat("no random numbers: ", TakeError()));
  return key;
}

bool SameKey(const Key& a, const Key& b) { return CRYPTO_memcmp(a.data(), b.data(), sizeof(a)) == 0; }

std::string KeyText(const Key& key) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(key.data()), sizeof(key)));
}

absl::StatusOr<Key> ParseKey(absl::string_view text) {
  Key key;
  std::string bytes;
  if (!absl::HexStringToBytes(text, &bytes) || bytes.size() != sizeof(key)) return absl::InvalidArgumentError("not a key of a process");
  std::memcpy(key.data(), bytes.data(), sizeof(key));
  return key;
}

void Connection::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

absl::StatusOr<Connection> Connection::Encrypt(Socket socket, const Key& key, std::chrono::milliseconds limit, size_t bytes_per_key) {
  Connection connection(std::move(socket));
  connection.ssl_.reset(NewSsl(connection.fd(), key));
  if (connection.ssl_ == nullptr) return NoMemory();
  connection.bytes_per_key_ = bytes_per_key;
  SSL_set_verify(connection.ssl_.get(), SSL_VERIFY_PEER, nullptr);
  SetLimit(connection.fd(), limit);
  ERR_clear_error();
  const int connected = SSL_connect(connection.ssl_.get());
  const int error = SSL_get_error(connection.ssl_.get(), connected);
  SSL_set_app_data(connection.ssl_.get(), nullptr);  // the key has been used
  if (connected != 1) {
    const bool late = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    return absl::UnavailableError(late ? absl::StrCat("no encrypted connection within ", limit.count(), " ms")
                                       : absl::StrCat("no encrypted connection: ", TakeError()));
  }
  SetLimit(connection.fd(), {});
  return connection;
}

absl::StatusOr<Connection> Connection::Accept(Socket socket, const Key& key) {
  Connection connection(std::move(socket));
  connection.ssl_.reset(NewSsl(connection.fd(), key));
  if (connection.ssl_ == nullptr) return NoMemory();
  SSL_set_accept_state(connection.ssl_.get());
  return connection;
}

absl::Status Connection::Send(absl::Span<const absl::string_view> parts) {
  if (ssl_ == nullptr) return WriteAll(fd(), parts);
  record_.clear();
  for (absl::string_view part : parts) {
    while (!part.empty()) {
      if (record_.empty() && part.size() >= kRecordBytes) {  // nothing to gather
        if (absl::Status status = SendRecord(part.data(), kRecordBytes); !status.ok()) return status;
        part.remove_prefix(kRecordBytes);
        continue;
      }
      const size_t taken = std::min(part.size(), kRecordBytes - record_.size());
      record_.insert(record_.end(), part.begin(), part.begin() + taken);
      part.remove_prefix(taken);
      if (record_.size() < kRecordBytes) continue;
      if (absl::Status status = SendRecord(record_.data(), record_.size()); !status.ok()) return status;
      record_.clear();
    }
  }
  return record_.empty() ? absl::OkStatus() : SendRecord(record_.data(), record_.size());
}

absl::Status Connection::SendRecord(const char* bytes, size_t size) {
  if (keyed_bytes_ >= bytes_per_key_) {
    keyed_bytes_ = 0;
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);  // sent with the next record; the other end does not answer
  }
  ERR_clear_error();
  size_t written = 0;
  if (SSL_write_ex(ssl_.get(), bytes, size, &written) == 1) {
    keyed_bytes_ += size;
    return absl::OkStatus();
  }
  return absl::UnavailableError(ERR_peek_error() == 0 ? absl::StrCat("sending: ", std::strerror(errno)) : absl::StrCat("sending: ", TakeError()));
}

ssize_t Connection::Receive(char* into, size_t room) {
  if (ssl_ == nullptr) return recv(fd(), into, room, 0);
  ERR_clear_error();
  size_t received = 0;
  const int done = SSL_read_ex(ssl_.get(), into, room, &received);
  if (!greeted_ && BIO_number_read(SSL_get_rbio(ssl_.get())) > kMostGreetingBytes) return 0;
  if (done == 1) return static_cast<ssize_t>(received);
  const int error = SSL_get_error(ssl_.get(), done);
  ERR_clear_error();
  if (error != SSL_ERROR_WANT_READ) return 0;  // it has ended, or is no connection of ours
  errno = EAGAIN;
  return -1;
}

void Connection::Greeted() {
  greeted_ = true;
  if (ssl_ != nullptr) SSL_set_read_ahead(ssl_.get(), 1);
}

}  // namespace pw::pjrt_cpu
