// Serves a process's metrics to Prometheus (docs/operators.md): the flags for its address, and the server.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/http/server.h"

namespace pw {

struct MetricsFlags {
  std::string listen;
  std::string token_file;
  std::string port_file;
};

void DeclareMetrics(MetricsFlags* options, Flags* flags);

// Calls `done` with the page, once, on any thread. If it never does, the server closes the connection after a time.
using MetricsSource = std::function<void(absl::AnyInvocable<void(absl::StatusOr<std::string>) &&> done)>;

// Serves GET /metrics. Returns null if no address is given. On a port, clients must show the token of the token file; to a Unix
// socket, only this user can connect. INVALID_ARGUMENT: a port without a token file, a file without a token, or an address that
// other machines reach, because nothing is encrypted.
absl::StatusOr<std::unique_ptr<http::Server>> ServeMetrics(const MetricsFlags& options, MetricsSource source);

}  // namespace pw
