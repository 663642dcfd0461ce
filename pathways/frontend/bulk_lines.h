// BulkLines: where relays of clients on other machines bring and fetch large host buffers (bulk/line.h). A second way to what
// host_buffer_calls.h does, with the same meaning: a session is named by its random number, errors are the same.
//
// Sessions are told the port and a secret when they are opened (bulk/headers.h). A relay that cannot reach it uses gRPC.
//
// Invariants:
//   BL-1  a frame that makes no sense ends its line, and no session
//   BL-2  nothing of a store is read before the session has room for all of it
//   BL-3  a store whose line breaks is forgotten: its handle is free again
// The lines' state is the cluster strand's.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/frontend/server_state.h"
#include "pathways/net/asio_transport.h"

namespace pw::frontend {

class BulkLines {
 public:
  // Listens at HOST:PORT; port 0 picks a free one. UNAVAILABLE: it cannot be listened on.
  static absl::StatusOr<std::unique_ptr<BulkLines>> Listen(const std::string& address, std::shared_ptr<ServerState> state);
  // Ends all lines. The strand runs until this has returned.
  ~BulkLines() = default;

  // The value of bulk::kLineHeader.
  const std::string& announcement() const { return announcement_; }

 private:
  BulkLines();

  std::unique_ptr<net::Listener> listener_;
  std::string announcement_;
  net::AsioTransport transport_;  // last: no callback runs once it has gone
};

}  // namespace pw::frontend
