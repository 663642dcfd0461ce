#include "pathways/frontend/versions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace pw::frontend {

absl::StatusOr<xla::ifrt::proxy::IfrtProxyVersion> Negotiate(const xla::ifrt::proxy::IfrtProxyVersion& min,
                                                             const xla::ifrt::proxy::IfrtProxyVersion& max) {
  if (min.protocol_version() > max.protocol_version()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the client's version range ", min.protocol_version(), " to ", max.protocol_version(), " is empty"));
  }
  if (max.protocol_version() < protocol::kOldest || min.protocol_version() > protocol::kNewest) {
    return absl::FailedPreconditionError(
        absl::StrCat("the client speaks versions ", min.protocol_version(), " to ", max.protocol_version(),
                     " of the IFRT proxy protocol, this server ", protocol::kOldest, " to ", protocol::kNewest, "; ",
                     max.protocol_version() < protocol::kOldest ? "install a newer jaxlib (0.8.3 or later)"
                                                                : "update the server, or install an older jaxlib"));
  }
  xla::ifrt::proxy::IfrtProxyVersion version;
  version.set_protocol_version(std::min(max.protocol_version(), protocol::kNewest));
  version.set_ifrt_serdes_version_number(max.ifrt_serdes_version_number());
  return version;
}

absl::Status CheckVersion(int protocol_version) {
  if (protocol_version >= protocol::kOldest && protocol_version <= protocol::kNewest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("a session was opened with version ", protocol_version,
                                                    " of the IFRT proxy protocol; this server speaks ", protocol::kOldest, " to ",
                                                    protocol::kNewest));
}

}  // namespace pw::frontend
