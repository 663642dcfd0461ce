// The versions of the proxy protocol that this server speaks, and their negotiation.
#pragma once

#include "absl/status/statusor.h"
#include "ifrt_proxy/ifrt_service.pb.h"

namespace pw::frontend {

// Versions, named by the feature that they introduced. Later versions only add to messages, so one set of messages serves all.
namespace protocol {
inline constexpr int kOldest = 15;
inline constexpr int kFetchExecuteResult = 21;  // older clients: CheckFuture on the status handle
inline constexpr int kNewest = 25;
}  // namespace protocol

// Returns the newest version that both speak. The serdes version is the client's newest, since a client refuses to compile under an older
// one. FAILED_PRECONDITION, naming both ranges, if there is no common version.
absl::StatusOr<xla::ifrt::proxy::IfrtProxyVersion> Negotiate(const xla::ifrt::proxy::IfrtProxyVersion& min,
                                                             const xla::ifrt::proxy::IfrtProxyVersion& max);
// Checks the version that a client claims to have negotiated.
absl::Status CheckVersion(int protocol_version);

}  // namespace pw::frontend
