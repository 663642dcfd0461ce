#include "pathways/net/asio/asio_listener.h"

#include <errno.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "pathways/base/log.h"

namespace pw::net {
namespace {
// Delay before the next attempt when the system is out of descriptors or memory.
constexpr std::chrono::milliseconds kRetry{100};
}  // namespace

Acceptor::Acceptor(std::vector<std::shared_ptr<EventLoop>> loops, Fd fd, Address address, const AsioOptions& options,
                   Transport::AcceptCallback on_accept)
    : loops_(std::move(loops)),
      address_(std::move(address)),
      options_(options),
      on_accept_(std::move(on_accept)),
      initial_fd_(std::move(fd)),
      fd_(initial_fd_.get()),
      descriptor_(loops_[0]->io()),
      retry_(loops_[0]->io()) {
  gate_.Attach(&on_accept_);
}

void Acceptor::Open() {
  loops_[0]->Post([self = shared_from_this()] {
    if (self->released_) return;
    asio::error_code error;
    self->descriptor_.assign(self->fd_, error);
    if (error) {
      PW_LOG_ERROR << "cannot accept on " << ToString(self->address_) << ": " << error.message();
      return;
    }
    self->initial_fd_.Release();
    self->shutdown_hook_ = self->loops_[0]->AddShutdownHook([raw = self.get()] {
      raw->shutdown_hook_ = 0;
      raw->shared_from_this()->Release();
    });
    self->Arm();
  });
}

void Acceptor::Abandon() {
  gate_.Detach(loops_[0]->RunsHere());
  if (released_) return;  // the transport released it; its loops may have ended
  loops_[0]->Post([self = shared_from_this()] { self->Release(); });
}

void Acceptor::Release() {
  if (released_.exchange(true)) return;
  // If the file remained, clients would try to connect to it.
  if (address_.kind == Address::Kind::kUnix && address_.path[0] != '@') ::unlink(address_.path.c_str());
  asio::error_code ignored;
  descriptor_.close(ignored);
  initial_fd_ = Fd();
  retry_.cancel();
  while (!handshakes_.empty()) {
    const std::shared_ptr<TlsHandshake> handshake = handshakes_.front();
    handshake->Cancel(absl::CancelledError("the listener was destroyed"));
  }
  if (shutdown_hook_ != 0) loops_[0]->RemoveShutdownHook(std::exchange(shutdown_hook_, 0));
}

void Acceptor::Arm() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](asio::error_code error) {
    if (!self->released_) self->AcceptAll();
  });
}

void Acceptor::AcceptAll() {
  while (!released_) {
    SocketAddress remote;
    remote.size = sizeof(remote.storage);
    Fd fd(::accept4(fd_, reinterpret_cast<sockaddr*>(&remote.storage), &remote.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      AcceptOne(std::move(fd), remote);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Arm();
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return RetryLater(errno);
    }
    // Any other error concerns a connection that was gone before we accepted it.
  }
}

void Acceptor::AcceptOne(Fd fd, const SocketAddress& remote) {
  said_why_ = false;
  ConfigureStream(fd.get());
  std::string peer = NameAccepted(fd.get(), remote, address_);
  if (address_.kind == Address::Kind::kUnix) {
    if (const absl::Status status = CheckSameUser(fd.get(), peer); !status.ok()) return Refused(status);
  } else if (options_.tls != nullptr) {
    return Greet(std::move(fd), std::move(peer));
  }
  const PeerProof proof = address_.kind == Address::Kind::kUnix ? PeerProof::kOwn : PeerProof::kOpen;
  auto channel = std::make_unique<PlainChannel>(fd.get());
  Deliver({std::move(fd), std::move(channel), proof}, std::move(peer));
}

void Acceptor::Greet(Fd fd, std::string peer) {
  const auto place = handshakes_.emplace(handshakes_.end());
  auto done = [self = shared_from_this(), place, peer](absl::StatusOr<EstablishedSocket> socket) {
    self->handshakes_.erase(place);
    if (self->released_) return;
    if (!socket.ok()) return self->Refused(socket.status());
    self->Deliver(*std::move(socket), peer);
  };
  const auto handshake =
      std::make_shared<TlsHandshake>(loops_[0], std::move(fd), options_.tls, TlsChannel::Side::kAccepts, peer, std::move(done));
  *place = handshake;
  handshake->Begin(options_.handshake_limit);
  if (handshakes_.size() > options_.most_handshakes) {
    const std::shared_ptr<TlsHandshake> oldest = handshakes_.front();
    oldest->Cancel(
        absl::ResourceExhaustedError("a peer had not completed the TLS handshake when too many others waited for theirs"));
  }
}

// Logs the number of refusals at each power of two, so that a flood does not fill the log.
void Acceptor::Refused(const absl::Status& reason) {
  ++refused_;
  if ((refused_ & (refused_ - 1)) != 0) return;
  PW_LOG_WARNING << "refused a connection at " << ToString(address_) << " (" << refused_ << " so far): " << reason.message();
}

void Acceptor::Deliver(EstablishedSocket socket, std::string peer) {
  const std::shared_ptr<EventLoop>& loop = loops_[next_loop_++ % loops_.size()];
  auto stream =
      std::make_shared<Stream>(loop, std::move(socket), std::move(peer), StreamOptions{options_.limits, options_.inline_sends});
  stream->Open();
  auto connection = std::make_unique<AsioConnection>(std::move(stream));
  gate_.Call([&](Transport::AcceptCallback* on_accept) { (*on_accept)(std::move(connection)); });
}

void Acceptor::RetryLater(int error) {
  if (!std::exchange(said_why_, true)) {
    PW_LOG_WARNING << SocketError(error, "connections wait at " + ToString(address_)).message();
  }
  retry_.expires_after(kRetry);
  retry_.async_wait([self = shared_from_this()](asio::error_code) {
    if (!self->released_) self->AcceptAll();
  });
}

}  // namespace pw::net
