#include "pathways/net/asio/asio_connector.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pw::net {
namespace {

constexpr std::chrono::milliseconds kFirstBackoff{2};
constexpr std::chrono::milliseconds kMaxBackoff{100};

// Returns true for errors that waiting for a starting peer does not resolve.
bool IsFinal(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
    case EPROTOTYPE:
    case EINVAL:
      return true;
    default:
      return false;
  }
}

}  // namespace

Connector::Connector(std::shared_ptr<EventLoop> loop, Address address, absl::Duration timeout, const AsioOptions& options,
                     Transport::ConnectCallback on_done)
    : loop_(std::move(loop)),
      address_(std::move(address)),
      timeout_(timeout),
      options_(options),
      on_done_(std::move(on_done)),
      resolver_(loop_->io()),
      descriptor_(loop_->io()),
      deadline_(loop_->io()),
      retry_(loop_->io()),
      backoff_(kFirstBackoff) {}

void Connector::Begin() {
  loop_->Post([self = shared_from_this()] { self->OnLoop(); });
}

void Connector::OnLoop() {
  shutdown_hook_ = loop_->AddShutdownHook([self = shared_from_this()] {
    self->shutdown_hook_ = 0;
    self->Done(absl::CancelledError(absl::StrCat("connecting to ", ToString(self->address_), ": the transport was shut down")));
  });
  if (timeout_ != absl::InfiniteDuration()) {
    deadline_.expires_after(std::chrono::nanoseconds(absl::ToInt64Nanoseconds(timeout_)));
    deadline_.async_wait([self = shared_from_this()](asio::error_code) {
      self->Done(self->Failed(absl::StrCat(" within ", absl::FormatDuration(self->timeout_))));
    });
  }
  Resolve();
}

void Connector::Resolve() {
  candidates_.clear();
  candidate_ = 0;
  if (const SocketAddress known = WithoutLookup(address_); known.size != 0) {
    candidates_.push_back(known);
    NextCandidate();
    return;
  }
  resolver_.async_resolve(address_.host, std::to_string(address_.port), asio::ip::resolver_base::numeric_service,
                          [self = shared_from_this()](asio::error_code error, const auto& results) {
                            if (self->on_done_) self->OnResolved(error, results);
                          });
}

void Connector::OnResolved(asio::error_code error, const asio::ip::tcp::resolver::results_type& results) {
  if (error) {
    // Not final: in a starting cluster, names appear in DNS together with the processes.
    OnFailure(EHOSTUNREACH, absl::StrCat("looking up '", address_.host, "': ", error.message()));
    return;
  }
  for (const auto& result : results) {
    const asio::ip::tcp::endpoint endpoint = result.endpoint();
    SocketAddress address;
    address.size = static_cast<socklen_t>(endpoint.size());
    std::memcpy(&address.storage, endpoint.data(), endpoint.size());
    candidates_.push_back(address);
  }
  NextCandidate();
}

void Connector::NextCandidate() {
  Fd fd;
  const int error = StartConnect(candidates_[candidate_++], &fd);
  if (error == 0) {
    Connected(std::move(fd));
    return;
  }
  if (error != EINPROGRESS) {
    OnFailure(error, std::string(SocketError(error, "the last attempt").message()));
    return;
  }
  asio::error_code ec;
  descriptor_.assign(fd.get(), ec);
  if (ec) {
    OnFailure(ec.value(), ec.message());
    return;
  }
  fd.Release();
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_write, [self = shared_from_this()](asio::error_code) {
    if (self->on_done_) self->OnAttempted();
  });
}

void Connector::OnAttempted() {
  Fd fd(descriptor_.release());
  const int error = FinishConnect(fd.get());
  if (error == 0) {
    Connected(std::move(fd));
  } else {
    OnFailure(error, std::string(SocketError(error, "the last attempt").message()));
  }
}

void Connector::OnFailure(int error, std::string text) {
  last_failure_ = std::move(text);
  last_error_ = error;
  if (IsFinal(error)) {
    Done(SocketError(error, absl::StrCat("cannot connect to ", ToString(address_))));
    return;
  }
  if (candidate_ < candidates_.size()) {
    NextCandidate();
    return;
  }
  if (!options_.retry_connects) {
    Done(Failed(""));
    return;
  }
  retry_.expires_after(backoff_);
  backoff_ = std::min(backoff_ * 2, kMaxBackoff);
  retry_.async_wait([self = shared_from_this()](asio::error_code) {
    if (self->on_done_) self->Resolve();
  });
}

void Connector::Connected(Fd fd) {
  ConfigureStream(fd.get());
  LimitSilence(fd.get(), options_.longest_silence);
  const std::string peer = ToString(address_);
  if (address_.kind == Address::Kind::kTcp && options_.tls != nullptr) {
    auto done = [self = shared_from_this()](absl::StatusOr<EstablishedSocket> socket) {
      self->handshake_ = nullptr;
      if (!self->on_done_) return;
      if (socket.ok()) return self->Established(*std::move(socket));
      if (absl::IsUnauthenticated(socket.status())) return self->Done(socket.status());
      self->OnFailure(ECONNRESET, std::string(socket.status().message()));
    };
    handshake_ =
        std::make_shared<TlsHandshake>(loop_, std::move(fd), options_.tls, TlsChannel::Side::kConnects, peer, std::move(done));
    return handshake_->Begin(absl::InfiniteDuration());  // the deadline of the whole call limits it
  }
  // Another user's process may have taken the name of an abstract socket. Root may connect to any process.
  if (address_.kind == Address::Kind::kUnix && ::geteuid() != 0) {
    if (absl::Status status = CheckSameUser(fd.get(), peer); !status.ok()) return Done(std::move(status));
  }
  auto channel = std::make_unique<PlainChannel>(fd.get());
  Established({std::move(fd), std::move(channel), address_.kind == Address::Kind::kUnix ? PeerProof::kOwn : PeerProof::kOpen});
}

void Connector::Established(EstablishedSocket socket) {
  auto stream = std::make_shared<Stream>(loop_, std::move(socket), ToString(address_),
                                         StreamOptions{options_.limits, options_.inline_sends});
  stream->Open();
  Done(std::make_unique<AsioConnection>(std::move(stream)));
}

absl::Status Connector::Failed(absl::string_view when) const {
  absl::Status status = absl::UnavailableError(
      absl::StrCat("cannot connect to ", ToString(address_), when, " (", last_failure_, "); is a process listening there?"));
  return last_error_ == ECONNREFUSED || last_error_ == ENOENT ? MarkedNobodyListens(std::move(status)) : status;
}

void Connector::Done(absl::StatusOr<std::unique_ptr<Connection>> result) {
  if (!on_done_) return;
  const Transport::ConnectCallback on_done = std::exchange(on_done_, nullptr);
  if (shutdown_hook_ != 0) loop_->RemoveShutdownHook(std::exchange(shutdown_hook_, 0));
  asio::error_code ignored;
  descriptor_.close(ignored);
  deadline_.cancel();
  retry_.cancel();
  resolver_.cancel();
  if (const auto handshake = std::exchange(handshake_, nullptr)) handshake->Cancel(absl::CancelledError("connecting has ended"));
  on_done(std::move(result));
}

}  // namespace pw::net
