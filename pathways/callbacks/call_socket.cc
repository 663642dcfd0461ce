#include "pathways/callbacks/call_socket.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/io_context.hpp"
#include "asio/local/stream_protocol.hpp"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "pathways/base/log.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/callbacks/connection.h"

namespace pw::callbacks {
namespace {

using asio::local::stream_protocol;

constexpr std::chrono::milliseconds kRetryPause{100};
constexpr size_t kMostPath = 107;  // of a Unix socket

}  // namespace

struct CallSocket::State {
  std::string path;
  Door door;
  const std::shared_ptr<asio::io_context> io =
      std::make_shared<asio::io_context>(1);  // shared with Callers, which may outlive this
  stream_protocol::acceptor acceptor{*io};
  std::vector<std::weak_ptr<Connection>> connections;
  asio::steady_timer retry{*io};
  bool said_why = false;               // logged once, until accepting works again
  ThreadPool thread{"host-calls", 1};  // last: joined before the other members are destroyed

  absl::Status Listen();
  void Accept();
  void AcceptLater(asio::error_code why);
};

absl::Status CallSocket::State::Listen() {
  if (path.size() > kMostPath) return absl::UnavailableError(absl::StrCat(path, " is too long for a Unix socket"));
  asio::error_code error;
  unlink(path.c_str());
  acceptor.open(stream_protocol(), error);
  if (!error) acceptor.bind(stream_protocol::endpoint(path), error);
  if (!error && chmod(path.c_str(), 0600) != 0) error = asio::error_code(errno, asio::error::get_system_category());
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot listen on the Unix socket ", path, ": ", error.message(),
                                             ". Name another with --callback-socket (at most ", kMostPath, " characters)."));
}

void CallSocket::State::Accept() {
  acceptor.async_accept([this](asio::error_code error, stream_protocol::socket socket) {
    if (!acceptor.is_open()) return;
    if (error) return AcceptLater(error);
    said_why = false;
    auto connection = std::make_shared<Connection>(io, std::move(socket), door);
    std::erase_if(connections, [](const auto& old) { return old.expired(); });
    connections.push_back(connection);
    connection->Start();
    Accept();
  });
}

// Accepts again later: there are no descriptors, or there is no memory, for another connection now.
void CallSocket::State::AcceptLater(asio::error_code why) {
  if (!std::exchange(said_why, true)) {
    PW_LOG_WARNING << "connections wait at " << path << ": " << why.message();
  }
  retry.expires_after(kRetryPause);
  retry.async_wait([this](asio::error_code cancelled) {
    if (!cancelled && acceptor.is_open()) Accept();
  });
}

absl::StatusOr<std::unique_ptr<CallSocket>> CallSocket::Start(const std::string& path, Door door) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->door = std::move(door);
  if (absl::Status status = state->Listen(); !status.ok()) return status;
  state->Accept();
  state->thread.Post([io = state->io] { io->run(); });
  return std::unique_ptr<CallSocket>(new CallSocket(std::move(state)));
}

CallSocket::CallSocket(std::unique_ptr<State> state) : state_(std::move(state)) {}

CallSocket::~CallSocket() {
  asio::post(*state_->io, [state = state_.get()] {
    asio::error_code ignored;
    (void)state->acceptor.close(ignored);
    state->retry.cancel();
    unlink(state->path.c_str());
    for (auto& weak : state->connections) {
      if (auto connection = weak.lock()) connection->Close();
    }
  });  // then run() has nothing left to do, and the thread ends
}

}  // namespace pw::callbacks
