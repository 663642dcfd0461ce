#include "pathways/bin/front_door.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "pathways/base/process/port_file.h"
#include "pathways/base/status_macros.h"

namespace pw {

void DeclareFrontDoor(FrontDoorOptions* options, Flags* flags) {
  flags->Add("listen", &options->server.listen, "HOST:PORT", "where jax programs connect; port 0 picks a free one");
  flags->Add("callback-socket", &options->callback_socket, "PATH",
             "a Unix socket through which computations call Python functions of clients with our package");
  DeclareServer(&options->server, flags);
  flags->Add("port-file", &options->server.port_file, "PATH",
             "where to write the address that is listened on, and the process id, a line each");
}

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Open(const FrontDoorOptions& options, session::Cluster* cluster) {
  PW_ASSIGN_OR_RETURN(const frontend::ServerOptions server, ServerOptionsFrom(options.server, "--listen"));
  std::unique_ptr<FrontDoor> door(new FrontDoor);
  PW_ASSIGN_OR_RETURN(door->server_, frontend::Server::Start(server, cluster));
  door->address_ = absl::StrCat(server.host, ":", door->server_->port());
  if (!options.callback_socket.empty()) {
    callbacks::CallSocket::Door to_server;
    to_server.post = [cluster](absl::AnyInvocable<void()&&> task) { cluster->Post(std::move(task)); };
    to_server.add = [server = door->server_.get()](const std::string& token, std::shared_ptr<session::HostCallHandler> handler) {
      return server->AddCompanion(token, std::move(handler));
    };
    to_server.remove = [server = door->server_.get()](const std::string& token) { server->RemoveCompanion(token); };
    PW_ASSIGN_OR_RETURN(door->callbacks_, callbacks::CallSocket::Start(options.callback_socket, std::move(to_server)));
  }
  if (!options.server.port_file.empty())
    PW_RETURN_IF_ERROR(WritePortFile(options.server.port_file, absl::StrCat(door->address_, "\n", getpid())));
  return door;
}

FrontDoor::~FrontDoor() {
  callbacks_ = nullptr;
  if (server_ != nullptr) server_->Shutdown();
}

}  // namespace pw
