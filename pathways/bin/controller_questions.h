// The operator's side of `pathways-controller --status ADDRESS`, `--trace ADDRESS`, `--share ADDRESS`, `--suspend ADDRESS` and `--drain ADDRESS`.
// ADDRESS is where the controller's clients connect; the question goes over an observer's session (proto/pathways/v1/session.proto).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/gang/share.h"
#include "pathways/session/session.h"

namespace pw {

// Returns the report (docs/status.md).
absl::StatusOr<std::string> AskForStatus(const std::string& address, absl::Duration timeout);
// The same; the address is where the controller's workers join.
absl::StatusOr<std::string> AskForStatusAsWorker(const std::string& address, absl::Duration timeout);

// Has the cluster record for so long.
absl::StatusOr<session::ClusterTrace> RecordTrace(const std::string& address, absl::Duration duration, absl::Duration timeout);

// Returns the answer as JSON: {"moved": [slice, ...], "stuck": [{"slice", "why"}, ...]}.
absl::StatusOr<std::string> Drain(const std::string& address, absl::Duration timeout, const std::string& host, bool undo);

// Likewise: {"client", "arrays", "bytes"}.
absl::StatusOr<std::string> Suspend(const std::string& address, absl::Duration timeout, uint64_t client, bool resume);

// Changes what a client is entitled to; INVALID_ARGUMENT, NOT_FOUND.
absl::StatusOr<gang::Share> SetShare(const std::string& address, absl::Duration timeout, uint64_t client,
                                     const gang::ShareChange& change);

}  // namespace pw
