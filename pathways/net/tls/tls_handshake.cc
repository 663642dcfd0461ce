#include "pathways/net/tls/tls_handshake.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::net {

TlsHandshake::TlsHandshake(std::shared_ptr<EventLoop> loop, Fd fd, std::shared_ptr<Tls> tls, TlsChannel::Side side,
                           std::string peer, Done done)
    : loop_(std::move(loop)),
      tls_(std::move(tls)),
      side_(side),
      peer_(std::move(peer)),
      done_(std::move(done)),
      fd_(std::move(fd)),
      descriptor_(loop_->io()),
      deadline_(loop_->io()) {}

void TlsHandshake::Begin(absl::Duration limit) {
  absl::StatusOr<std::unique_ptr<TlsChannel>> channel = TlsChannel::Create(fd_.get(), *tls_, side_);
  asio::error_code error;
  if (channel.ok()) descriptor_.assign(fd_.get(), error);
  if (!channel.ok() || error) {
    absl::Status status =
        channel.ok() ? SocketError(error.value(), absl::StrCat("cannot watch the connection to ", peer_)) : channel.status();
    loop_->Post([self = shared_from_this(), status = std::move(status)] { self->End(status); });
    return;
  }
  fd_.Release();
  channel_ = *std::move(channel);
  shutdown_hook_ = loop_->AddShutdownHook([self = shared_from_this()] {
    self->shutdown_hook_ = 0;
    self->Cancel(absl::CancelledError("the transport was shut down"));
  });
  if (limit != absl::InfiniteDuration()) {
    deadline_.expires_after(std::chrono::nanoseconds(absl::ToInt64Nanoseconds(limit)));
    deadline_.async_wait([self = shared_from_this(), limit](asio::error_code cancelled) {
      if (cancelled) return;
      self->End(absl::UnavailableError(
          absl::StrCat(self->peer_, " has not completed the TLS handshake within ", absl::FormatDuration(limit))));
    });
  }
  loop_->Post([self = shared_from_this()] { self->Step(); });
}

void TlsHandshake::Cancel(const absl::Status& reason) { End(reason); }

void TlsHandshake::Step() {
  if (!done_) return;
  switch (channel_->Handshake()) {
    case TlsChannel::Step::kReadable:
      return Wait(asio::posix::stream_descriptor::wait_read);
    case TlsChannel::Step::kWritable:
      return Wait(asio::posix::stream_descriptor::wait_write);
    case TlsChannel::Step::kLost:
      return End(absl::UnavailableError(absl::StrCat(peer_, " closed the connection during the TLS handshake",
                                                     channel_->failure().empty() ? "" : ": ", channel_->failure())));
    case TlsChannel::Step::kRefused:
      return End(absl::UnauthenticatedError(absl::StrCat("no TLS connection with ", peer_, ": ", channel_->failure())));
    case TlsChannel::Step::kDone:
      break;
  }
  EstablishedSocket socket;
  socket.proof = channel_->proof();
  socket.fd = Fd(descriptor_.release());
  socket.channel = std::move(channel_);
  End(std::move(socket));
}

void TlsHandshake::Wait(asio::posix::stream_descriptor::wait_type what) {
  descriptor_.async_wait(what, [self = shared_from_this()](asio::error_code) { self->Step(); });
}

void TlsHandshake::End(absl::StatusOr<EstablishedSocket> result) {
  if (!done_) return;
  const Done done = std::exchange(done_, nullptr);
  if (shutdown_hook_ != 0) loop_->RemoveShutdownHook(std::exchange(shutdown_hook_, 0));
  asio::error_code ignored;
  descriptor_.close(ignored);
  fd_ = Fd();
  deadline_.cancel();
  done(std::move(result));
}

}  // namespace pw::net
