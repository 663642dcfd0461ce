#include "pathways/net/tls/https_get.h"

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/openssl_ptr.h"

namespace pw::net {
namespace {

struct Url {
  std::string host, port = "443", path = "/";
};

absl::StatusOr<Url> ParseUrl(const std::string& text) {
  absl::string_view rest = text;
  const bool sound = absl::ConsumePrefix(&rest, "https://") && text.size() <= 2048 &&
                     std::all_of(rest.begin(), rest.end(), [](char c) { return absl::ascii_isgraph(c) && c != '@' && c != '#'; });
  Url url;
  const size_t slash = std::min(rest.find('/'), rest.size());
  absl::string_view place = rest.substr(0, slash);
  if (slash < rest.size()) url.path = std::string(rest.substr(slash));
  if (const size_t colon = place.rfind(':'); colon != absl::string_view::npos && !absl::EndsWith(place, "]")) {
    url.port = std::string(place.substr(colon + 1));
    place = place.substr(0, colon);
  }
  if (absl::ConsumePrefix(&place, "[")) place = absl::StripSuffix(place, "]");
  url.host = std::string(place);
  int port = 0;
  if (!sound || url.host.empty() || !absl::SimpleAtoi(url.port, &port) || port < 1 || port > 65535)
    return absl::InvalidArgumentError("an address of a document is https://HOST[:PORT]/PATH");
  return url;
}

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

// How long a request may take: until a time, or until a descriptor can be read.
struct Limit {
  absl::Time deadline;
  int stop;
};

// Waits until `fd` can be read or written.
absl::Status Wait(int fd, int events, const Limit& limit) {
  for (;;) {
    const int64_t left = absl::ToInt64Milliseconds(limit.deadline - absl::Now());
    if (left <= 0) return absl::UnavailableError("it did not answer in time");
    pollfd polled[] = {{fd, static_cast<int16_t>(events), 0}, {limit.stop, POLLIN, 0}};
    const int ready = ::poll(polled, 2, static_cast<int>(left));
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

absl::StatusOr<Fd> Connect(const Url& url, const Limit& limit) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); error != 0)
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

// Returns whether an answer has all bytes that its header "content-length" announces. Many servers close without TLS's goodbye
// after them, which without such a header could be an answer that somebody has cut.
bool IsWhole(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const std::string headers = absl::AsciiStrToLower(answer.substr(0, end + 2));
  const std::string name = "\r\ncontent-length:";
  const size_t at = headers.find(name);
  if (at == std::string::npos) return false;
  const size_t begin = at + name.size();
  uint64_t length = 0;
  const std::string text = headers.substr(begin, headers.find("\r\n", begin) - begin);
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &length) && answer.size() - end - 4 >= length;
}

absl::StatusOr<std::string> Ask(SSL* ssl, const std::string& request, size_t most_bytes, const Limit& limit) {
  PW_RETURN_IF_ERROR(Until(ssl, limit, "TLS", [&] { return SSL_connect(ssl); }).status());
  PW_RETURN_IF_ERROR(
      Until(ssl, limit, "writing", [&] { return SSL_write(ssl, request.data(), static_cast<int>(request.size())); }).status());
  std::string answer;
  for (;;) {
    char piece[8192];
    PW_ASSIGN_OR_RETURN(const int read, Until(ssl, limit, "reading", [&] { return SSL_read(ssl, piece, sizeof(piece)); }));
    if (read == 0) return answer;
    answer.append(piece, static_cast<size_t>(read));
    if (answer.size() > most_bytes)
      return absl::UnavailableError(absl::StrCat("the answer has more than ", most_bytes, " bytes"));
    if (IsWhole(answer)) return answer;
  }
}

// Returns the body of an HTTP/1.x answer whose end is the end of the connection.
absl::StatusOr<std::string> BodyOf(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  const std::string headers = absl::AsciiStrToLower(answer.substr(0, std::min(end, answer.size())));
  const std::string first = headers.substr(0, headers.find("\r\n"));
  if (!absl::StartsWith(first, "http/1.") || end == std::string::npos) return absl::UnavailableError("it does not speak HTTP/1");
  if (first.substr(std::min<size_t>(first.find(' '), first.size()), 5) != " 200 " && !absl::EndsWith(first, " 200"))
    return absl::UnavailableError(absl::StrCat("the answer is '", answer.substr(0, std::min<size_t>(first.size(), 80)), "'"));
  if (absl::StrContains(headers, "\r\ntransfer-encoding: chunked"))
    return absl::UnavailableError("the answer comes in chunks, which HTTP/1.0 does not have");
  return answer.substr(end + 4);
}

}  // namespace

absl::StatusOr<std::string> HttpsGet(const std::string& url, const HttpsOptions& options) {
  PW_ASSIGN_OR_RETURN(const Url to, ParseUrl(url));
  const Limit limit = {absl::Now() + options.limit, options.stop};
  const NoSigpipe no_sigpipe;
  PW_ASSIGN_OR_RETURN(const SslContextPtr context, Trusting(options.authorities));
  PW_ASSIGN_OR_RETURN(const Fd fd, Connect(to, limit));
  const SslPtr ssl(SSL_new(context.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd.get()) != 1 || SSL_set1_host(ssl.get(), to.host.c_str()) != 1 ||
      SSL_set_tlsext_host_name(ssl.get(), to.host.c_str()) != 1) {
    return absl::ResourceExhaustedError("there is no memory for TLS");
  }
  const std::string request =
      absl::StrCat("GET ", to.path, " HTTP/1.0\r\nHost: ", to.host, "\r\nAccept: application/json\r\nConnection: close\r\n\r\n");
  PW_ASSIGN_OR_RETURN(const std::string answer, Ask(ssl.get(), request, options.most_bytes, limit));
  return BodyOf(answer);
}

}  // namespace pw::net
