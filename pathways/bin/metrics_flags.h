// The address at which a process shows its metrics to Prometheus (docs/operators.md): flags, and the server behind them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/flags.h"
#include "pathways/http/server.h"

namespace pw {

struct MetricsFlags {
  std::string listen;
  std::string token_file;
  std::string port_file;
};

void DeclareMetrics(MetricsFlags* options, Flags* flags);

// Calls `done` with the page, once, on any thread; if it never does, the asking tool's connection is closed in time.
using MetricsSource = std::function<void(absl::AnyInvocable<void(absl::StatusOr<std::string>) &&> done)>;

// Serves GET /metrics. Returns null if no address is given. On a port, who asks must show the token in the token file; a Unix socket is this user's
// alone. INVALID_ARGUMENT: a port without a token file, a file without a token, or an address that other machines reach: nothing is encrypted.
absl::StatusOr<std::unique_ptr<http::Server>> ServeMetrics(const MetricsFlags& options, MetricsSource source);

}  // namespace pw
