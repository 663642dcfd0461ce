#include "pathways/net/transport.h"

#include "pathways/net/file_socket.h"

namespace pw::net {

absl::StatusOr<std::unique_ptr<FileListener>> Transport::ListenForFiles() {
  return absl::UnimplementedError("this transport hands no open files over");
}

absl::StatusOr<std::unique_ptr<FileSocket>> Transport::ConnectForFiles(const std::string&, const std::string&) {
  return absl::UnimplementedError("this transport hands no open files over");
}

}  // namespace pw::net
