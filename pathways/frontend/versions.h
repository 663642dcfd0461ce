// Which versions of the proxy protocol this server speaks.
#pragma once

#include "absl/status/statusor.h"
#include "ifrt_proxy/ifrt_service.pb.h"

namespace pw::frontend {

// Versions by what they brought. The messages only ever grew, so one set of them serves all.
namespace protocol {
inline constexpr int kOldest = 15;
inline constexpr int kFetchExecuteResult = 21;  // before: CheckFuture on the status handle
inline constexpr int kNewest = 25;
}  // namespace protocol

// The newest that both speak; serdes: the client's newest, since a client refuses to compile under less. FAILED_PRECONDITION, naming both
// ranges, if there is none.
absl::StatusOr<xla::ifrt::proxy::IfrtProxyVersion> Negotiate(const xla::ifrt::proxy::IfrtProxyVersion& min,
                                                             const xla::ifrt::proxy::IfrtProxyVersion& max);
// For a client that says what was negotiated.
absl::Status CheckVersion(int protocol_version);

}  // namespace pw::frontend
