#include "pathways/net/transport.h"

#include "absl/strings/str_cat.h"
#include "pathways/net/file_socket.h"

namespace pw::net {

absl::Status CheckServer(const Connection& connection, PeerProof wanted) {
  const PeerProof proof = connection.proof();
  if (proof == wanted || proof == PeerProof::kOwn || proof == PeerProof::kOpen) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("the process at ", connection.peer(), " has no certificate of a ",
                                                 wanted == PeerProof::kController ? "controller" : "worker", " of this cluster"));
}

absl::StatusOr<std::unique_ptr<FileListener>> Transport::ListenForFiles() {
  return absl::UnimplementedError("this transport hands no open files over");
}

absl::StatusOr<std::unique_ptr<FileSocket>> Transport::ConnectForFiles(const std::string&, const std::string&) {
  return absl::UnimplementedError("this transport hands no open files over");
}

}  // namespace pw::net
