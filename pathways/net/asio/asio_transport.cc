#include "pathways/net/asio/asio_transport.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/net/address.h"
#include "pathways/net/asio/asio_connector.h"
#include "pathways/net/asio/asio_listener.h"
#include "pathways/net/sockets/event_loop.h"
#include "pathways/net/sockets/file_socket.h"
#include "pathways/net/sockets/socket.h"

namespace pw::net {

AsioTransport::AsioTransport(const AsioOptions& options) : options_(options) {
  const int count = std::max(1, options.threads);
  for (int i = 0; i < count; ++i) loops_.push_back(std::make_shared<EventLoop>(absl::StrCat("net-", i)));
}

AsioTransport::~AsioTransport() {
  // All loops close their objects before any loop ends: until then, one loop may still pass a connection to another.
  for (const auto& loop : loops_) loop->BeginShutdown();
  for (const auto& loop : loops_) loop->Join();
}

absl::StatusOr<std::unique_ptr<Listener>> AsioTransport::Listen(const std::string& address, AcceptCallback on_accept) {
  PW_ASSIGN_OR_RETURN(const Address where, ParseAddress(address));
  PW_ASSIGN_OR_RETURN(Fd fd, ListenSocket(where));
  LimitSilence(fd.get(), options_.longest_silence);  // accepted connections inherit it
  const Address real = where.kind == Address::Kind::kTcp ? FromSocketAddress(LocalAddress(fd.get())) : where;
  auto acceptor = std::make_shared<Acceptor>(loops_, std::move(fd), real, options_, std::move(on_accept));
  acceptor->Open();
  return std::make_unique<AsioListener>(std::move(acceptor), ToString(real));
}

void AsioTransport::Connect(const std::string& address, absl::Duration timeout, ConnectCallback on_done) {
  const std::shared_ptr<EventLoop>& loop = loops_[next_loop_++ % loops_.size()];
  absl::StatusOr<Address> where = ParseAddress(address);
  if (!where.ok()) {
    loop->Post([on_done = std::move(on_done), status = where.status()] { on_done(status); });
    return;
  }
  std::make_shared<Connector>(loop, *std::move(where), timeout, options_, std::move(on_done))->Begin();
}

absl::StatusOr<std::unique_ptr<FileListener>> AsioTransport::ListenForFiles() { return FileListener::Create(loops_[0]); }

absl::StatusOr<std::unique_ptr<FileSocket>> AsioTransport::ConnectForFiles(const std::string& address, const std::string& key) {
  return ConnectFileSocket(loops_[0], address, key);
}

}  // namespace pw::net
