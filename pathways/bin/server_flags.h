// ServerFlags: the command-line flags of a frontend::Server, for processes that have one.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/frontend/server.h"

namespace pw {

struct ServerFlags {
  std::string listen = "127.0.0.1:0";  // each process has its own flags for this and for the port file
  std::string port_file;
  std::string translator_python;
  frontend::ServerOptions server;
};

void DeclareServer(ServerFlags* options, Flags* flags);
// Converts the flags. `flag` is the name of the flag for the address. INVALID_ARGUMENT names it.
absl::StatusOr<frontend::ServerOptions> ServerOptionsFrom(const ServerFlags& options, const std::string& flag);

}  // namespace pw
