// PythonCalls: lets computations call Python functions of this process (jax.pure_callback and the like). This library contains no
// Python. It listens on a Unix socket; the package, in the same process, connects to it and answers the calls
// (pathways/callbacks).
//
// Calls that arrive before the package has connected wait for it. After it has closed the connection, calls fail.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/callbacks/call_socket.h"
#include "pathways/client/client.h"

namespace pw::pathways_pjrt {

class PythonCalls {
 public:
  // Makes the socket at `path`, for the one process that shows the token. The session outlives this.
  static absl::StatusOr<std::unique_ptr<PythonCalls>> Start(client::Client* session, const std::string& path, std::string token);

 private:
  PythonCalls() = default;

  std::unique_ptr<callbacks::CallSocket> socket_;
};

}  // namespace pw::pathways_pjrt
