#include "pathways/net/transport.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace pw::net {
namespace {

constexpr char kClosedByPeer[] = "pathways/closed-by-peer";
constexpr char kNobodyListens[] = "pathways/nobody-listens";

absl::Status Marked(absl::Status status, const char* mark) {
  status.SetPayload(mark, absl::Cord());
  return status;
}

}  // namespace

bool ClosedByPeer(const absl::Status& reason) { return reason.GetPayload(kClosedByPeer).has_value(); }
absl::Status MarkedClosedByPeer(absl::Status reason) { return Marked(std::move(reason), kClosedByPeer); }
bool NobodyListens(const absl::Status& failure) { return failure.GetPayload(kNobodyListens).has_value(); }
absl::Status MarkedNobodyListens(absl::Status failure) { return Marked(std::move(failure), kNobodyListens); }

absl::Status CheckServer(const Connection& connection, PeerProof wanted) {
  const PeerProof proof = connection.proof();
  if (proof == wanted || proof == PeerProof::kOwn || proof == PeerProof::kOpen) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("the process at ", connection.peer(), " has no certificate of a ",
                                                 wanted == PeerProof::kController ? "controller" : "worker", " of this cluster"));
}

}  // namespace pw::net
