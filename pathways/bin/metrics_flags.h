// Serves a process's metrics to Prometheus (docs/operators.md): the flags for its address, and the server.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/http/server.h"
#include "pathways/net/tls/tls.h"

namespace pw {

struct MetricsFlags {
  std::string listen;
  std::string token_file;
  std::string port_file;
};

void DeclareMetrics(MetricsFlags* options, Flags* flags);

// Calls `done` with the page, once, on any thread. If it never does, the server closes the connection after a time.
using MetricsSource = std::function<void(absl::AnyInvocable<void(absl::StatusOr<std::string>) &&> done)>;

// Serves GET /metrics. Returns null if no address is given. On a port, clients must show the token of the token file; to a Unix socket, only this user
// can connect. An address that other machines reach is encrypted by `tls`, which shows the certificate of this process's part in the cluster: readers
// expect the name controller.pathways or worker.pathways (net/tls/certificates.h). INVALID_ARGUMENT: a port without a token file, a file without a
// token, or such an address without `tls` (null).
absl::StatusOr<std::unique_ptr<http::Server>> ServeMetrics(const MetricsFlags& options, std::shared_ptr<net::Tls> tls,
                                                           MetricsSource source);

}  // namespace pw
