// The operator's side of `pathways-controller --status ADDRESS`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace pw {

// The report (docs/status.md) of the controller at ADDRESS: where its clients connect ("HOST:PORT"), or where its workers do
// ("tcp:HOST:PORT", "unix:PATH").
absl::StatusOr<std::string> AskForStatus(const std::string& address, absl::Duration timeout);

}  // namespace pw
