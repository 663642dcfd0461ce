#include "pathways/bin/metrics_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/log.h"
#include "pathways/base/process/port_file.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/bin/served_here.h"
#include "pathways/http/metrics_text.h"
#include "pathways/net/address.h"

namespace pw {
namespace {

// Returns the token, or none on a Unix socket.
absl::StatusOr<std::string> TokenFor(const MetricsFlags& options, const net::Address& address) {
  if (address.kind == net::Address::Kind::kUnix) return "";
  if (options.token_file.empty())
    return absl::InvalidArgumentError(
        "--listen-metrics on a port needs --metrics-token-file, because every user of this machine reaches it; unix:PATH needs "
        "none");
  return ReadSecret("--metrics-token-file", options.token_file);
}

void Answer(const MetricsSource& source, const std::string& token, const http::Request& request, http::Server::Answer answer) {
  if (!token.empty() && !SameSecret(request.authorization, absl::StrCat("Bearer ", token)))
    return std::move(answer)({.status = 401, .body = "show the token of --metrics-token-file: Authorization: Bearer TOKEN\n"});
  if (request.path != "/metrics") return std::move(answer)({.status = 404, .body = "the metrics are at /metrics\n"});
  http::MetricsText process;  // read on the server's thread: it reads files of /proc
  http::AddProcessMetrics(&process);
  source([answer = std::move(answer), process = process.Take()](absl::StatusOr<std::string> page) mutable {
    if (!page.ok()) return std::move(answer)({.status = 503, .body = absl::StrCat(page.status().message(), "\n")});
    std::move(answer)({.content_type = http::kMetricsContentType, .body = absl::StrCat(*page, process)});
  });
}

}  // namespace

void DeclareMetrics(MetricsFlags* options, Flags* flags) {
  flags->Add(
      "listen-metrics", &options->listen, "ADDRESS",
      "show metrics to Prometheus at http://ADDRESS/metrics: HOST:PORT (port 0 picks a free one), or unix:PATH. An "
      "address that other machines reach has HTTPS, with the certificate of this process in the cluster; default: nowhere");
  flags->Add("metrics-token-file", &options->token_file, "PATH",
             "of --listen-metrics on a port: a file with the secret that a reader shows, as 'Authorization: Bearer SECRET'");
  flags->Add("metrics-port-file", &options->port_file, "PATH", "file for that address, once it is listened on");
}

absl::StatusOr<std::unique_ptr<http::Server>> ServeMetrics(const MetricsFlags& options, std::shared_ptr<net::Tls> tls,
                                                           MetricsSource source) {
  if (options.listen.empty()) return nullptr;
  PW_ASSIGN_OR_RETURN(const net::Address address, net::ParseAddress(options.listen));
  const bool stays = StaysOnThisMachine(address);
  if (!stays && tls == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen-metrics=", options.listen,
                     ": other machines reach that address, and this process has no certificate to encrypt metrics with; "
                     "listen on 127.0.0.1, and let a Prometheus or a proxy of this machine read them"));
  }
  PW_ASSIGN_OR_RETURN(const std::string token, TokenFor(options, address));
  http::Server::Handler handler = [source = std::move(source), token](const http::Request& request, http::Server::Answer answer) {
    Answer(source, token, request, std::move(answer));
  };
  PW_ASSIGN_OR_RETURN(auto server,
                      http::Server::Listen(options.listen, std::move(handler), {.tls = stays ? nullptr : std::move(tls)}));
  const std::string listening(absl::StripPrefix(server->address(), "tcp:"));
  if (!options.port_file.empty()) PW_RETURN_IF_ERROR(WritePortFile(options.port_file, listening));
  PW_LOG_INFO << "metrics are at " << (stays ? "" : "https://") << listening << ", path /metrics";
  return server;
}

}  // namespace pw
