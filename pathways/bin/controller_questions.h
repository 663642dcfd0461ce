// The operator's side of `pathways-controller --status ADDRESS`, `--trace ADDRESS`, `--share ADDRESS` and `--drain ADDRESS`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/gang/share.h"

namespace pw {

// The report (docs/status.md) of the controller at ADDRESS: where its clients connect ("HOST:PORT"), or where its workers do
// ("tcp:HOST:PORT", "unix:PATH").
absl::StatusOr<std::string> AskForStatus(const std::string& address, absl::Duration timeout);

struct TraceSummary {
  int64_t events = 0;
  int64_t events_not_recorded = 0;
  std::vector<std::string> silent_hosts;
};
// Has the cluster of the controller whose clients connect to ADDRESS recorded for so long, and writes the picture to the file.
absl::StatusOr<TraceSummary> SaveTrace(const std::string& address, absl::Duration duration, absl::Duration timeout,
                                       const std::string& path);

// The answer as JSON: {"moved": [slice, ...], "stuck": [{"slice", "why"}, ...]}.
absl::StatusOr<std::string> Drain(const std::string& address, absl::Duration timeout, const std::string& host, bool undo);

// Likewise: {"client", "arrays", "bytes"}.
absl::StatusOr<std::string> Suspend(const std::string& address, absl::Duration timeout, uint64_t client, bool resume);

// Changes what a client is entitled to; INVALID_ARGUMENT, NOT_FOUND.
absl::StatusOr<gang::Share> SetShare(const std::string& address, absl::Duration timeout, uint64_t client,
                                     const gang::ShareChange& change);

}  // namespace pw
