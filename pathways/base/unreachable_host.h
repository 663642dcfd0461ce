// Marks an error of one host that another host has caused, because it cannot be reached. The controller knows whether that host is lost, and
// tells users so instead (controller/hosts/host_losses.h). The mark travels in Status.unreachable_host (worker.proto).
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "pathways/base/ids.h"

namespace pw {

absl::Status WithUnreachableHost(absl::Status status, HostId host);
// UNAVAILABLE with the mark.
absl::Status UnreachableHostError(HostId host, absl::string_view message);
std::optional<HostId> UnreachableHost(const absl::Status& status);

// Returns `to` with the payloads of `from`.
absl::Status WithPayloadsOf(const absl::Status& from, absl::Status to);

}  // namespace pw
