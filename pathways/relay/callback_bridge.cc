#include "pathways/relay/callback_bridge.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/io_context.hpp"
#include "asio/local/stream_protocol.hpp"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "pathways/base/log.h"
#include "pathways/base/thread_pool.h"
#include "pathways/relay/companion.h"

namespace pw::relay {

using asio::local::stream_protocol;

namespace {
constexpr std::chrono::milliseconds kRetry{100};

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& server) {
  grpc::ChannelArguments args;
  args.SetMaxSendMessageSize(-1);
  args.SetMaxReceiveMessageSize(-1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the user's http_proxy is not meant for it
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(), args);
}

}  // namespace

struct CallbackBridge::State {
  std::string path;
  std::shared_ptr<grpc::Channel> channel;
  asio::io_context io{1};
  stream_protocol::acceptor acceptor{io};
  std::vector<std::weak_ptr<Companion>> companions;
  asio::steady_timer retry{io};
  bool said_why = false;               // in the log, once until it works again: connections wait
  ThreadPool thread{"host-calls", 1};  // last: joined before what it uses goes

  absl::Status Listen();
  void Accept();
  void AcceptLater(asio::error_code why);
};

absl::Status CallbackBridge::State::Listen() {
  asio::error_code error;
  unlink(path.c_str());
  acceptor.open(stream_protocol(), error);
  if (!error) acceptor.bind(stream_protocol::endpoint(path), error);
  if (!error && chmod(path.c_str(), 0600) != 0) error = asio::error_code(errno, asio::error::get_system_category());
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot listen on the Unix socket ", path, ": ", error.message(),
                                             ". Name another with --callback-socket (at most 107 characters)."));
}

void CallbackBridge::State::Accept() {
  acceptor.async_accept([this](asio::error_code error, stream_protocol::socket socket) {
    if (!acceptor.is_open()) return;
    if (error) return AcceptLater(error);
    said_why = false;
    auto companion = std::make_shared<Companion>(std::move(socket), channel);
    std::erase_if(companions, [](const auto& old) { return old.expired(); });
    companions.push_back(companion);
    companion->Start();
    Accept();
  });
}

// There are no descriptors or there is no memory for another connection, which waits.
void CallbackBridge::State::AcceptLater(asio::error_code why) {
  if (!std::exchange(said_why, true)) {
    PW_LOG_WARNING << "connections wait at " << path << ": " << why.message();
  }
  retry.expires_after(kRetry);
  retry.async_wait([this](asio::error_code cancelled) {
    if (!cancelled && acceptor.is_open()) Accept();
  });
}

absl::StatusOr<std::unique_ptr<CallbackBridge>> CallbackBridge::Start(const std::string& path, const std::string& server) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->channel = ChannelTo(server);
  if (absl::Status status =
          path.size() > 107 ? absl::UnavailableError(absl::StrCat(path, " is too long for a Unix socket")) : state->Listen();
      !status.ok()) {
    return status;
  }
  state->Accept();
  state->thread.Post([io = &state->io] { io->run(); });
  return std::unique_ptr<CallbackBridge>(new CallbackBridge(std::move(state)));
}

CallbackBridge::CallbackBridge(std::unique_ptr<State> state) : state_(std::move(state)) {}

CallbackBridge::~CallbackBridge() {
  asio::post(state_->io, [state = state_.get()] {
    asio::error_code ignored;
    (void)state->acceptor.close(ignored);
    state->retry.cancel();
    unlink(state->path.c_str());
    for (auto& weak : state->companions) {
      if (auto companion = weak.lock()) companion->Close();
    }
  });  // then run() has nothing left to do, and the thread ends
}

}  // namespace pw::relay
