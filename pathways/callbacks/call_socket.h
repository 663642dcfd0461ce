// CallSocket: the Unix socket by which computations call Python functions of processes on this machine. Each process that
// connects names its token, which its sessions carry too. From then on it answers their host calls (call_message.h).
//
// When a process closes its connection, its calls under way fail. When the front door ends, Python sees the end of the socket.
//
// Owns one thread, which runs the socket's events.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/session/session.h"

namespace pw::callbacks {

class CallSocket {
 public:
  // The front door. `add` and `remove` are called on its strand, on which `post` runs tasks.
  struct Door {
    std::function<void(absl::AnyInvocable<void() &&> task)> post;
    // Lets the process with this token answer the calls of the sessions that have the token. An error ends the connection.
    std::function<absl::Status(const std::string& token, std::shared_ptr<session::HostCallHandler> handler)> add;
    std::function<void(const std::string& token)> remove;  // the process has gone
  };

  // Makes the socket, accessible to this user only, and replaces an old socket file at `path`. UNAVAILABLE: it cannot be made.
  // The door must go on running tasks until it has run those that the destructor posts.
  static absl::StatusOr<std::unique_ptr<CallSocket>> Start(const std::string& path, Door door);
  // Ends all connections; removes the socket.
  ~CallSocket();

 private:
  struct State;
  explicit CallSocket(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace pw::callbacks
