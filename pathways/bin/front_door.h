// FrontDoor: serves jax programs on their own machine. Its server (frontend::Server) answers the requests of JAX's proxy client.
// Through its Unix socket, computations call Python functions in those programs' processes (callbacks::CallSocket).
//
// The program pathways-agent opens one for a cluster elsewhere, pathways-local for the cluster in its own process.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/bin/server_flags.h"
#include "pathways/callbacks/call_socket.h"
#include "pathways/frontend/server.h"

namespace pw {

struct FrontDoorOptions {
  ServerFlags server;
  std::string callback_socket;  // path of the Unix socket; empty: computations cannot call Python functions through it
};

// Adds the command-line flags for the options.
void DeclareFrontDoor(FrontDoorOptions* options, Flags* flags);

class FrontDoor {
 public:
  // Begins to serve `cluster`, which outlives the front door. If options.server.port_file is set, writes the address and the
  // process id to that file, one per line. INVALID_ARGUMENT: a wrong option. UNAVAILABLE: an address is in use.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Open(const FrontDoorOptions& options, session::Cluster* cluster);
  ~FrontDoor();  // ends all sessions

  // Returns HOST:PORT, with the real port.
  const std::string& address() const { return address_; }
  // Calls `done` with the front door's metrics for Prometheus, on the cluster's strand.
  void GetMetrics(absl::AnyInvocable<void(std::string) &&> done) { server_->GetMetrics(std::move(done)); }

 private:
  FrontDoor() = default;

  std::string address_;
  std::unique_ptr<frontend::Server> server_;
  std::unique_ptr<callbacks::CallSocket> callbacks_;  // null: the options name no callback socket
};

}  // namespace pw
