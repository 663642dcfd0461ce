#include "pathways/http/server.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <list>
#include <utility>

#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/http/exchange.h"
#include "pathways/net/address.h"
#include "pathways/net/sockets/asio.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/sockets/socket.h"

namespace pw::http {
namespace {
// Delay before the next attempt when the system is out of descriptors or memory.
constexpr std::chrono::milliseconds kAcceptRetry{100};
}  // namespace

// The listening socket and the open exchanges. All methods but the constructor run on the loop.
class Server::Listening : public std::enable_shared_from_this<Listening> {
 public:
  Listening(net::Fd fd, net::Address address, Handler handler, const Options& options)
      : loop_(std::make_shared<net::EventLoop>("http")),
        address_(std::move(address)),
        handler_(std::move(handler)),
        options_(options),
        initial_fd_(std::move(fd)),
        fd_(initial_fd_.get()),
        descriptor_(loop_->io()),
        retry_(loop_->io()) {}

  net::EventLoop& loop() { return *loop_; }

  void Open() {
    asio::error_code error;
    descriptor_.assign(fd_, error);
    if (error) {
      PW_LOG_ERROR << "cannot accept on " << ToString(address_) << ": " << error.message();
      return;
    }
    initial_fd_.Release();
    loop_->AddShutdownHook([self = shared_from_this()] { self->Close(); });
    Await();
  }

 private:
  void Close() {
    closed_ = true;
    if (address_.kind == net::Address::Kind::kUnix && address_.path[0] != '@') ::unlink(address_.path.c_str());
    asio::error_code ignored;
    descriptor_.close(ignored);
    retry_.cancel();
    while (!exchanges_.empty()) exchanges_.front()->Close();
  }

  void Await() {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](asio::error_code) {
      if (!self->closed_) self->AcceptAll();
    });
  }

  void AcceptAll() {
    while (true) {
      net::Fd fd(::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) {
        Begin(std::move(fd));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return Await();
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        retry_.expires_after(kAcceptRetry);
        return retry_.async_wait([self = shared_from_this()](asio::error_code) {
          if (!self->closed_) self->AcceptAll();
        });
      }
      // Any other error concerns a connection that was gone before we accepted it.
    }
  }

  void Begin(net::Fd fd) {
    if (exchanges_.size() >= options_.connections && !EndOldestReader()) return;
    const auto exchange = std::make_shared<Exchange>(
        loop_, std::move(fd), options_.tls,
        [this](const Request& request, Answer answer) { handler_(request, std::move(answer)); },
        [this](Exchange* ended) { exchanges_.remove_if([ended](const auto& one) { return one.get() == ended; }); });
    exchanges_.push_back(exchange);
    exchange->Start(options_.patience);
  }

  bool EndOldestReader() {
    for (const auto& exchange : exchanges_) {
      if (!exchange->reading()) continue;
      const auto keep = exchange;  // Close takes it out of the list
      keep->Close();
      return true;
    }
    return false;
  }

  const std::shared_ptr<net::EventLoop> loop_;
  const net::Address address_;
  const Handler handler_;
  const Options options_;
  net::Fd initial_fd_;  // until Open
  const int fd_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer retry_;
  std::list<std::shared_ptr<Exchange>> exchanges_;  // the oldest first
  bool closed_ = false;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const std::string& address, Handler handler, const Options& options) {
  PW_ASSIGN_OR_RETURN(const net::Address where, net::ParseAddress(address));
  PW_ASSIGN_OR_RETURN(net::Fd fd, net::ListenSocket(where));
  const net::Address real = where.kind == net::Address::Kind::kTcp ? net::FromSocketAddress(net::LocalAddress(fd.get())) : where;
  auto listening = std::make_shared<Listening>(std::move(fd), real, std::move(handler), options);
  listening->loop().Post([listening] { listening->Open(); });
  return std::unique_ptr<Server>(new Server(std::move(listening), net::ToString(real)));
}

Server::Server(std::shared_ptr<Listening> listening, std::string address)
    : listening_(std::move(listening)), address_(std::move(address)) {}

Server::~Server() {
  listening_->loop().BeginShutdown();
  listening_->loop().Join();
}

}  // namespace pw::http
