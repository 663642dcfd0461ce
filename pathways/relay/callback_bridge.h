// CallbackBridge: lets running computations call Python functions of this machine's processes. It listens on a Unix socket; for
// every process that connects and names its token it opens a HostCalls stream (client.proto) with the front door's server and carries
// calls down and answers up. It knows nothing of what the calls mean.
//
// Either end closing closes the other: when Python goes, the server fails the calls under way; when the server goes, Python sees the end of
// the socket.
//
// Owns one thread, which runs the socket's events; what gRPC reports on its own threads is posted there. That thread is the
// strand of the bridge and of its companions.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace pw::relay {

class CallbackBridge {
 public:
  // Makes the socket, readable for this user only. An old socket file at `path` is replaced. UNAVAILABLE: it cannot be made.
  static absl::StatusOr<std::unique_ptr<CallbackBridge>> Start(const std::string& path, const std::string& server);
  // Ends all connections; removes the socket.
  ~CallbackBridge();

 private:
  struct State;
  explicit CallbackBridge(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace pw::relay
