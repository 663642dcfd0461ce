#include "pathways/http/exchange.h"

#include <errno.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::http {
namespace {

constexpr size_t kReadBytes = 4096;

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

Exchange::Exchange(std::shared_ptr<net::EventLoop> loop, net::Fd fd, Pass pass, Closed closed)
    : loop_(std::move(loop)),
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
  Await(asio::posix::stream_descriptor::wait_read, &Exchange::Read);
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

void Exchange::Read() {
  char buffer[kReadBytes];
  const ssize_t got = ::recv(fd_, buffer, sizeof(buffer), 0);
  if (got < 0 && (WouldBlock(errno) || errno == EINTR)) return Await(asio::posix::stream_descriptor::wait_read, &Exchange::Read);
  if (got <= 0) return Close();
  switch (parser_.Feed({buffer, static_cast<size_t>(got)})) {
    case RequestParser::State::kMore:
      return Await(asio::posix::stream_descriptor::wait_read, &Exchange::Read);
    case RequestParser::State::kRefused:
      return Reply({.status = parser_.status(), .body = absl::StrCat(parser_.reason(), "\n")});
    case RequestParser::State::kComplete:
      break;
  }
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
    const ssize_t sent = ::send(fd_, output_.data() + written_, output_.size() - written_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && WouldBlock(errno)) return Await(asio::posix::stream_descriptor::wait_write, &Exchange::Write);
    if (sent < 0) return Close();
    written_ += static_cast<size_t>(sent);
  }
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
