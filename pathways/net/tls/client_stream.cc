#include "pathways/net/tls/client_stream.h"

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "pathways/base/status_macros.h"

namespace pw::net {
namespace {

absl::Status System(absl::string_view what) { return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno))); }

// OpenSSL writes to sockets without MSG_NOSIGNAL: a server that closes early would end this process.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec now = {};
    while (sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
};

// Until when to wait.
struct Limit {
  const Patience& patience;
  absl::Time deadline;
};

// Waits until `fd` can be read or written.
absl::Status Wait(int fd, int events, const Limit& limit) {
  const absl::Time last = std::min(limit.deadline, absl::Now() + limit.patience.silence);
  for (;;) {
    const int64_t left = absl::ToInt64Milliseconds(last - absl::Now());
    if (left <= 0) return absl::UnavailableError("it did not answer in time");
    pollfd polled[] = {{fd, static_cast<int16_t>(events), 0}, {limit.patience.stop, POLLIN, 0}};
    const int ready = ::poll(polled, 2, static_cast<int>(std::min<int64_t>(left, INT_MAX)));
    if (ready < 0 && errno != EINTR) return System("poll");
    if (ready > 0) return polled[1].revents != 0 ? absl::CancelledError("this process ends") : absl::OkStatus();
  }
}

absl::StatusOr<Fd> ConnectTo(const addrinfo& to, const Limit& limit) {
  Fd fd(::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to.ai_protocol));
  if (!fd.valid()) return System("socket");
  if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS) return System("it does not listen");
  PW_RETURN_IF_ERROR(Wait(fd.get(), POLLOUT, limit));
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return System("getsockopt");
  if (error != 0) {
    errno = error;
    return System("it does not listen");
  }
  return fd;
}

absl::StatusOr<Fd> Connect(const RemoteServer& server, const Limit& limit) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found); error != 0)
    return absl::UnavailableError(absl::StrCat("its name is not known: ", ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  absl::StatusOr<Fd> fd = absl::UnavailableError("its name has no address");
  for (const addrinfo* at = found; at != nullptr && !fd.ok(); at = at->ai_next) fd = ConnectTo(*at, limit);
  return fd;
}

// Calls `step`, which returns what OpenSSL returns, until it succeeds. Returns what it returned; 0: the other end has closed.
template <class Step>
absl::StatusOr<int> Until(SSL* ssl, const Limit& limit, absl::string_view what, Step step) {
  for (;;) {
    ERR_clear_error();
    const int done = step();
    if (done > 0) return done;
    const int error = SSL_get_error(ssl, done);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
      if (const long verdict = SSL_get_verify_result(ssl); verdict != X509_V_OK)  // NOLINT(google-runtime-int): OpenSSL's type
        return absl::UnavailableError(absl::StrCat("its certificate is not trusted: ", X509_verify_cert_error_string(verdict)));
      return absl::UnavailableError(absl::StrCat(what, ": ", TakeOpensslError()));
    }
    PW_RETURN_IF_ERROR(Wait(SSL_get_fd(ssl), error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, limit));
  }
}

absl::StatusOr<SslContextPtr> Trusting(const std::string& authorities) {
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::ResourceExhaustedError("there is no memory for TLS");
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  const int trusted = authorities.empty() ? SSL_CTX_set_default_verify_paths(context.get())
                                          : SSL_CTX_load_verify_file(context.get(), authorities.c_str());
  if (trusted == 1) return context;
  return absl::InvalidArgumentError(absl::StrCat("cannot read the certificates in ", authorities, ": ", TakeOpensslError()));
}

absl::StatusOr<SslPtr> Encrypt(const Fd& fd, const SslContextPtr& context, const RemoteServer& server, const Limit& limit) {
  SslPtr ssl(SSL_new(context.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd.get()) != 1 || SSL_set1_host(ssl.get(), server.host.c_str()) != 1 ||
      SSL_set_tlsext_host_name(ssl.get(), server.host.c_str()) != 1) {
    return absl::ResourceExhaustedError("there is no memory for TLS");
  }
  PW_RETURN_IF_ERROR(Until(ssl.get(), limit, "TLS", [&] { return SSL_connect(ssl.get()); }).status());
  return ssl;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientStream>> ClientStream::Open(const RemoteServer& server, const Patience& patience) {
  const Limit limit = {patience, absl::Now() + patience.limit};
  if (!server.tls) {
    PW_ASSIGN_OR_RETURN(Fd fd, Connect(server, limit));
    return std::unique_ptr<ClientStream>(new ClientStream(std::move(fd), nullptr, patience, limit.deadline));
  }
  const NoSigpipe no_sigpipe;
  PW_ASSIGN_OR_RETURN(const SslContextPtr context, Trusting(server.authorities));
  PW_ASSIGN_OR_RETURN(Fd fd, Connect(server, limit));
  PW_ASSIGN_OR_RETURN(SslPtr ssl, Encrypt(fd, context, server, limit));
  return std::unique_ptr<ClientStream>(new ClientStream(std::move(fd), std::move(ssl), patience, limit.deadline));
}

absl::Status ClientStream::Write(absl::string_view bytes) {
  const NoSigpipe no_sigpipe;
  while (!bytes.empty()) {
    if (ssl_ != nullptr) {
      const int size = static_cast<int>(std::min<size_t>(bytes.size(), 1 << 20));
      PW_ASSIGN_OR_RETURN(const int written, Until(ssl_.get(), {patience_, deadline_}, "writing",
                                                   [&] { return SSL_write(ssl_.get(), bytes.data(), size); }));
      if (written == 0) return absl::UnavailableError("writing: it has closed the connection");
      bytes.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    const ssize_t written = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      PW_RETURN_IF_ERROR(Wait(fd_.get(), POLLOUT, {patience_, deadline_}));
    } else if (errno != EINTR) {
      return System("writing");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ClientStream::Read(absl::Span<char> space) {
  if (ssl_ != nullptr) {
    const NoSigpipe no_sigpipe;  // reading may have to write
    const int most = static_cast<int>(std::min<size_t>(space.size(), 1 << 20));
    PW_ASSIGN_OR_RETURN(const int read, Until(ssl_.get(), {patience_, deadline_}, "reading",
                                              [&] { return SSL_read(ssl_.get(), space.data(), most); }));
    return static_cast<size_t>(read);
  }
  for (;;) {
    const ssize_t read = ::recv(fd_.get(), space.data(), space.size(), 0);
    if (read >= 0) return static_cast<size_t>(read);
    if (errno == EAGAIN) {
      PW_RETURN_IF_ERROR(Wait(fd_.get(), POLLIN, {patience_, deadline_}));
    } else if (errno != EINTR) {
      return System("reading");
    }
  }
}

}  // namespace pw::net
