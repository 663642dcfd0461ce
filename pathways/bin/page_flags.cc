#include "pathways/bin/page_flags.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
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
#include "pathways/net/own_names.h"

namespace pw {
namespace {

// A browser opens several connections at once, and a cluster of many hosts takes up to half a second to answer.
constexpr size_t kConnections = 64;
constexpr size_t kMostPemBytes = 64 << 10;

// Returns the names and addresses by which browsers may call the page. IPv6 addresses have no brackets.
std::vector<std::string> Names(const PageFlags& options, const net::Address& address) {
  std::vector<std::string> names = net::NamesOfListener(address.host);
  for (absl::string_view name : absl::StrSplit(options.names, ',', absl::SkipWhitespace())) {
    if (!absl::c_linear_search(names, name)) names.emplace_back(name);
  }
  return names;
}

// Returns the names as browsers write them in requests.
std::vector<std::string> InRequests(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (absl::StrContains(name, ':')) name = absl::StrCat("[", name, "]");
  }
  return names;
}

// Shows the certificate in the files from now on.
absl::Status ShowFiles(const PageFlags& options, net::Tls* tls) {
  std::string read[2];
  const std::string* const paths[] = {&options.certificate, &options.key};
  for (int i = 0; i < 2; ++i) {
    read[i] = ReadSmallFile(*paths[i], kMostPemBytes).value_or("");
    if (read[i].empty())
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", *paths[i], " (--page-certificate, --page-key)"));
  }
  const absl::Status shown = tls->Show(read[0], read[1]);
  if (shown.ok()) return shown;
  return absl::InvalidArgumentError(
      absl::StrCat("--page-certificate=", options.certificate, ", --page-key=", options.key,
                   ": they are no chain of certificates and its private key in PEM: ", shown.message()));
}

bool WantsTls(const PageFlags& options, const net::Address& address) {
  return options.tls == "on" || (options.tls == "auto" && (!StaysOnThisMachine(address) || !options.certificate.empty()));
}

// Fills in `page`.
absl::Status AddTls(const PageFlags& options, const net::Address& address, identity::ClusterIdentity* identity,
                    PageSecurity* page) {
  if (options.tls != "on" && options.tls != "off" && options.tls != "auto")
    return absl::InvalidArgumentError("--page-tls must be on, off or auto");
  if (options.certificate.empty() != options.key.empty())
    return absl::InvalidArgumentError("--page-certificate and --page-key belong together");
  if (!options.certificate.empty() && options.tls == "off")
    return absl::InvalidArgumentError("--page-certificate means nothing with --page-tls off");
  if (!WantsTls(options, address)) return absl::OkStatus();
  if (!options.certificate.empty()) {
    PW_ASSIGN_OR_RETURN(page->tls, net::Tls::ForVisitors());
    page->reload = [options, tls = page->tls] { return ShowFiles(options, tls.get()); };
    return page->reload();
  }
  if (identity == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the page at ", options.listen,
                     " must be encrypted, and this cluster has no authority that could certify it: name a certificate by "
                     "--page-certificate and --page-key, start the controller with --identity, or listen on 127.0.0.1. "
                     "--page-tls off shows the page without encryption"));
  }
  PW_ASSIGN_OR_RETURN(page->tls, identity->ServeNames(Names(options, address)));
  page->authority = identity->authority_certificate();
  return absl::OkStatus();
}

absl::StatusOr<net::Address> AddressOf(const PageFlags& options) {
  PW_ASSIGN_OR_RETURN(net::Address address, net::ParseAddress(options.listen));
  if (address.kind == net::Address::Kind::kUnix)
    return absl::InvalidArgumentError("--listen-page: browsers reach HOST:PORT only, such as 127.0.0.1:9500");
  return address;
}

void WarnOfPlainText(const std::string& listen) {
  PW_LOG_WARNING << "the page at " << listen
                 << " is not encrypted, and others reach that address: whoever reads the network reads what it shows, and "
                 << "sessions too. Leave out --page-tls off. Operators' tokens do not open the page there";
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
             "show a page to operators there, for browsers (port 0 picks a free one); default: nowhere");
  flags->Add("page-files", &options->files, "DIR", "of --listen-page: the folder of the page's files");
  flags->Add("page-token-file", &options->token_file, "PATH",
             "of --listen-page: a file of this user alone with a secret that opens the page; 'pathways page' reads it to make an "
             "address that logs in");
  flags->Add("page-names", &options->names, "NAME,...",
             "of --listen-page: further names by which browsers may call it, such as that of a proxy before it");
  flags->Add("page-tls", &options->tls, "on|off|auto",
             "of --listen-page: on: HTTPS, with a certificate that the cluster's authority makes for the names of this machine "
             "and --page-names; off: HTTP; auto: on, unless only this machine reaches the address");
  flags->Add("page-certificate", &options->certificate, "PATH",
             "of --listen-page: a chain of certificates (PEM) of another authority, which browsers trust; the controller reads "
             "it again every day");
  flags->Add("page-key", &options->key, "PATH", "of --page-certificate: its private key (PEM)");
  flags->Add("page-logs", &options->logs, "DIR",
             "of --listen-page: a folder whose files NAME.log are the logs of this cluster's processes on this machine, for the "
             "page; default: none");
  flags->Add("page-port-file", &options->port_file, "PATH", "file for that address, once it is listened on");
}

absl::StatusOr<PageSecurity> SecurePage(const PageFlags& options, identity::ClusterIdentity* identity) {
  PageSecurity page;
  if (options.listen.empty()) return page;
  PW_ASSIGN_OR_RETURN(const net::Address address, AddressOf(options));
  PW_RETURN_IF_ERROR(AddTls(options, address, identity, &page));
  return page;
}

absl::StatusOr<std::unique_ptr<http::Server>> ServePage(const PageFlags& options, PageContents contents,
                                                        const PageSecurity& security, Executor* executor, Clock* clock) {
  if (options.listen.empty()) return nullptr;
  PW_ASSIGN_OR_RETURN(const net::Address address, AddressOf(options));
  http::Site::Options site_options{
      .hosts = InRequests(Names(options, address)), .sources = std::move(contents.sources), .make_key = RandomKey};
  PW_ASSIGN_OR_RETURN(site_options.secret, ReadSecret("--page-token-file", options.token_file));
  if (security.tls != nullptr || StaysOnThisMachine(address)) {
    site_options.admit = std::move(contents.admit);
  } else {
    WarnOfPlainText(options.listen);
  }
  if (!options.logs.empty()) site_options.sources["logs"] = LogSource(options.logs);
  PW_ASSIGN_OR_RETURN(http::StaticFiles files, http::StaticFiles::Load(options.files));
  if (!security.authority.empty()) files.Add("/authority.crt", {"application/x-x509-ca-cert", security.authority});
  const auto site = http::Site::Create(std::move(site_options), std::move(files), executor, clock);
  PW_ASSIGN_OR_RETURN(auto server, http::Server::Listen(options.listen,
                                                        [site](const http::Request& request, http::Server::Answer answer) {
                                                          site->Answer(request, std::move(answer));
                                                        },
                                                        {.connections = kConnections, .tls = security.tls}));
  const std::string listening(absl::StripPrefix(server->address(), "tcp:"));
  const char* const scheme = security.tls == nullptr ? "http" : "https";
  if (!options.port_file.empty()) PW_RETURN_IF_ERROR(WritePortFile(options.port_file, absl::StrCat(listening, "\n", scheme)));
  PW_LOG_INFO << "the page for operators is at " << scheme << "://" << listening
              << "; 'pathways page' prints an address that logs in";
  return server;
}

}  // namespace pw
