// ServerFlags: what the command line of a process with a frontend::Server says of it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/flags.h"
#include "pathways/frontend/server.h"

namespace pw {

struct ServerFlags {
  std::string listen = "127.0.0.1:0";  // each process has a flag of its own for it, and for the port file
  std::string port_file;
  std::string translator_python;
  frontend::ServerOptions server;
};

void DeclareServer(ServerFlags* options, Flags* flags);
// The server's options, with the address that the flag of this name gave. INVALID_ARGUMENT names it.
absl::StatusOr<frontend::ServerOptions> ServerOptionsFrom(const ServerFlags& options, const std::string& flag);

}  // namespace pw
