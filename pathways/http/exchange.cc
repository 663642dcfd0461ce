#include "pathways/http/exchange.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace pw::http {
namespace {

constexpr size_t kReadBytes = 4096;
constexpr uint8_t kTlsHandshake = 22;  // the first byte of a TLS connection (RFC 8446, 5.1); HTTP begins with a letter

const char* Phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Answer";
  }
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

std::string Head(const Response& response) {
  std::string more;
  for (const auto& [name, value] : response.headers) absl::StrAppend(&more, name, ": ", value, "\r\n");
  return absl::StrCat("HTTP/1.1 ", response.status, " ", Phrase(response.status), "\r\nContent-Type: ", response.content_type,
                      "\r\nContent-Length: ", response.body.size(), response.status == 405 ? "\r\nAllow: GET, HEAD" : "",
                      response.status == 401 ? "\r\nWWW-Authenticate: Bearer" : "",
                      "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n", more, "Connection: close\r\n\r\n");
}

}  // namespace

Exchange::Exchange(std::shared_ptr<net::EventLoop> loop, net::Fd fd, std::shared_ptr<net::Tls> tls, Pass pass, Closed closed)
    : loop_(std::move(loop)),
      tls_(std::move(tls)),
      pass_(std::move(pass)),
      closed_(std::move(closed)),
      initial_fd_(std::move(fd)),
      fd_(initial_fd_.get()),
      descriptor_(loop_->io()),
      timer_(loop_->io()) {}

void Exchange::Start(absl::Duration patience) {
  asio::error_code error;
  descriptor_.assign(fd_, error);
  if (error) return Close();
  initial_fd_.Release();
  timer_.expires_after(absl::ToChronoNanoseconds(patience));
  timer_.async_wait([self = shared_from_this()](asio::error_code stopped) {
    if (!stopped) self->Close();
  });
  if (tls_ != nullptr) {
    state_ = State::kGreeting;
    return Await(asio::posix::stream_descriptor::wait_read, &Exchange::BeginGreeting);
  }
  channel_ = std::make_unique<net::PlainChannel>(fd_);
  Await(asio::posix::stream_descriptor::wait_read, &Exchange::Read);
}

// Called when the first byte has arrived, which says whether the peer speaks TLS.
void Exchange::BeginGreeting() {
  uint8_t first = kTlsHandshake;
  if (::recv(fd_, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first != kTlsHandshake) {
    channel_ = std::make_unique<net::PlainChannel>(fd_);
    return Reply({.status = 400, .body = "this address speaks HTTPS: begin it with https://\n"});
  }
  auto channel = net::TlsChannel::Create(fd_, *tls_, net::TlsChannel::Side::kAccepts);
  if (!channel.ok()) return Close();
  greeting_ = channel->get();
  channel_ = *std::move(channel);
  Greet();
}

void Exchange::Greet() {
  switch (greeting_->Handshake()) {
    case net::TlsChannel::Step::kReadable:
      return Await(asio::posix::stream_descriptor::wait_read, &Exchange::Greet);
    case net::TlsChannel::Step::kWritable:
      return Await(asio::posix::stream_descriptor::wait_write, &Exchange::Greet);
    case net::TlsChannel::Step::kLost:
    case net::TlsChannel::Step::kRefused:
      return Close();
    case net::TlsChannel::Step::kDone:
      break;
  }
  greeting_ = nullptr;
  state_ = State::kReading;
  Read();  // the request may have arrived with the end of the handshake
}

void Exchange::Close() {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  asio::error_code ignored;
  descriptor_.close(ignored);
  timer_.cancel();
  std::exchange(closed_, nullptr)(this);
}

void Exchange::Await(asio::posix::stream_descriptor::wait_type what, void (Exchange::*then)()) {
  descriptor_.async_wait(what, [self = shared_from_this(), then](asio::error_code error) {
    if (self->state_ == State::kClosed) return;
    error ? self->Close() : (self.get()->*then)();
  });
}

// Reads until nothing more has arrived: a channel may hold bytes for which the socket does not become readable.
void Exchange::Read() {
  RequestParser::State parsed = RequestParser::State::kMore;
  while (parsed == RequestParser::State::kMore) {
    char buffer[kReadBytes];
    const iovec space = {buffer, sizeof(buffer)};
    const ssize_t got = channel_->Read({&space, 1});
    if (got < 0 && (WouldBlock(errno) || errno == EINTR))
      return Await(asio::posix::stream_descriptor::wait_read, &Exchange::Read);
    if (got <= 0) return Close();
    parsed = parser_.Feed({buffer, static_cast<size_t>(got)});
  }
  if (parsed == RequestParser::State::kRefused)
    return Reply({.status = parser_.status(), .body = absl::StrCat(parser_.reason(), "\n")});
  state_ = State::kAnswering;
  pass_(parser_.request(), [weak = weak_from_this(), loop = std::weak_ptr(loop_)](Response response) mutable {
    const auto alive = loop.lock();
    if (alive == nullptr) return;
    alive->Post([weak, response = std::move(response)] {
      const auto self = weak.lock();
      if (self != nullptr && self->state_ == State::kAnswering) self->Reply(response);
    });
  });
}

void Exchange::Reply(const Response& response) {
  state_ = State::kWriting;
  output_ = Head(response);
  if (parser_.state() != RequestParser::State::kComplete || parser_.request().method != "HEAD") output_ += response.body;
  Write();
}

void Exchange::Write() {
  while (written_ < output_.size()) {
    iovec piece = {output_.data() + written_, output_.size() - written_};
    const ssize_t sent = channel_->Write(absl::MakeSpan(&piece, 1));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && WouldBlock(errno)) return Await(asio::posix::stream_descriptor::wait_write, &Exchange::Write);
    if (sent < 0) return Close();
    written_ += static_cast<size_t>(sent);
  }
  if (const int error = channel_->Flush(); error != 0)
    return WouldBlock(error) ? Await(asio::posix::stream_descriptor::wait_write, &Exchange::Write) : Close();
  channel_->SayGoodbye();
  // Closing with unread bytes resets the connection, and the peer may lose the answer. So its bytes are read until it closes,
  // too.
  ::shutdown(fd_, SHUT_WR);
  state_ = State::kDraining;
  Drain();
}

void Exchange::Drain() {
  char buffer[kReadBytes];
  const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
  if (got > 0 || (got < 0 && (WouldBlock(errno) || errno == EINTR))) {
    return Await(asio::posix::stream_descriptor::wait_read, &Exchange::Drain);
  }
  Close();
}

}  // namespace pw::http
