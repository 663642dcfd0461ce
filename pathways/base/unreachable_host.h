// Marks an error that a host reports because it cannot reach another host. If the controller knows that the other host is lost,
// users get that error instead (controller/hosts/host_losses.h). The mark travels in Status.unreachable_host (worker.proto).
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pathways/base/ids.h"

namespace pw {

absl::Status WithUnreachableHost(absl::Status status, HostId host);
// Returns UNAVAILABLE with the mark.
absl::Status UnreachableHostError(HostId host, absl::string_view message);
std::optional<HostId> UnreachableHost(const absl::Status& status);

// Returns `to` with the payloads of `from`.
absl::Status WithPayloadsOf(const absl::Status& from, absl::Status to);

}  // namespace pw
