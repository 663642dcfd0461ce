#include "pathways/bin/page_flags.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/log.h"
#include "pathways/base/process/port_file.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/bin/served_here.h"
#include "pathways/http/log_tails.h"
#include "pathways/http/static_files.h"
#include "pathways/net/address.h"

namespace pw {
namespace {

// A browser opens several connections at once, and a cluster of many hosts takes up to half a second to answer.
constexpr http::Server::Options kServer = {.connections = 64};

// Returns the host names by which browsers may call the page, besides those of the loopback.
std::vector<std::string> Names(const PageFlags& options, const net::Address& address) {
  std::vector<std::string> names = absl::StrSplit(options.names, ',', absl::SkipWhitespace());
  names.push_back(absl::StrContains(address.host, ':') ? absl::StrCat("[", address.host, "]") : address.host);
  return names;
}

// Answers questions about logs, on a thread of its own, because it reads files.
http::Site::Source LogSource(const std::string& folder) {
  const auto tails = std::make_shared<const http::LogTails>(folder);
  const auto thread = std::make_shared<ThreadPool>("pw-logs", 1);
  return [tails, thread](const std::string& query, auto done) {
    thread->Post([tails, query, done = std::move(done)]() mutable { std::move(done)(tails->Answer(http::ReadLogQuery(query))); });
  };
}

}  // namespace

void DeclarePage(PageFlags* options, Flags* flags) {
  flags->Add("listen-page", &options->listen, "HOST:PORT",
             "show a page to operators there: read by a browser, and not encrypted, so best on 127.0.0.1 (port 0 picks a free "
             "one); default: nowhere");
  flags->Add("page-files", &options->files, "DIR", "of --listen-page: the folder of the page's files");
  flags->Add("page-token-file", &options->token_file, "PATH",
             "of --listen-page: a file of this user alone with a secret that opens the page; 'pathways page' reads it to make an "
             "address that logs in");
  flags->Add("page-names", &options->names, "NAME,...",
             "of --listen-page: further names by which browsers may call it, such as that of a proxy before it");
  flags->Add("page-logs", &options->logs, "DIR",
             "of --listen-page: a folder whose files NAME.log are the logs of this cluster's processes on this machine, for the "
             "page; default: none");
  flags->Add("page-port-file", &options->port_file, "PATH", "file for that address, once it is listened on");
}

absl::StatusOr<std::unique_ptr<http::Server>> ServePage(const PageFlags& options, PageContents contents, Executor* executor,
                                                        Clock* clock) {
  if (options.listen.empty()) return nullptr;
  PW_ASSIGN_OR_RETURN(const net::Address address, net::ParseAddress(options.listen));
  if (address.kind == net::Address::Kind::kUnix)
    return absl::InvalidArgumentError("--listen-page: browsers reach HOST:PORT only, such as 127.0.0.1:9500");
  http::Site::Options site_options{
      .hosts = Names(options, address), .sources = std::move(contents.sources), .make_key = RandomKey};
  PW_ASSIGN_OR_RETURN(site_options.secret, ReadSecret("--page-token-file", options.token_file));
  if (StaysOnThisMachine(address)) {
    site_options.admit = std::move(contents.admit);
  } else {
    PW_LOG_WARNING << "the page at " << options.listen
                   << " is not encrypted, and others reach that address: whoever reads the network reads what it shows, and "
                   << "sessions too. Listen on 127.0.0.1 and let a proxy with TLS before it, or 'ssh -L'. Operators' tokens do "
                      "not open it there";
  }
  if (!options.logs.empty()) site_options.sources["logs"] = LogSource(options.logs);
  PW_ASSIGN_OR_RETURN(http::StaticFiles files, http::StaticFiles::Load(options.files));
  const auto site = http::Site::Create(std::move(site_options), std::move(files), executor, clock);
  PW_ASSIGN_OR_RETURN(auto server, http::Server::Listen(
                                       options.listen,
                                       [site](const http::Request& request, http::Server::Answer answer) {
                                         site->Answer(request, std::move(answer));
                                       },
                                       kServer));
  const std::string listening(absl::StripPrefix(server->address(), "tcp:"));
  if (!options.port_file.empty()) PW_RETURN_IF_ERROR(WritePortFile(options.port_file, listening));
  PW_LOG_INFO << "the page for operators is at http://" << listening << "; 'pathways page' prints an address that logs in";
  return server;
}

}  // namespace pw
