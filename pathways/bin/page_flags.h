// The controller's web page for operators (docs/operators.md): its flags, and its HTTP server. The controller's main uses it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/executor.h"
#include "pathways/http/server.h"
#include "pathways/http/site.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/net/tls/tls.h"

namespace pw {

struct PageFlags {
  std::string listen;        // --listen-page: HOST:PORT; empty: no page
  std::string files;         // --page-files: the folder of the page's files
  std::string token_file;    // --page-token-file: has the secret that opens the page
  std::string names;         // --page-names: further host names by which browsers may call the page, with commas
  std::string tls = "auto";  // --page-tls: on, off, or auto: on if other machines reach the address
  std::string certificate;   // --page-certificate: a chain (PEM) of another authority; empty: the cluster's authority makes one
  std::string key;           // --page-key: the private key (PEM) of that certificate
  std::string logs;          // --page-logs: the folder of the logs that the page shows; empty: none
  std::string port_file;     // --page-port-file: the server writes its address there, and on a second line "https" or "http"
};

// Adds these flags.
void DeclarePage(PageFlags* options, Flags* flags);

// The data that the page shows. `admit` lets operators log in with their tokens, too, not only with the secret. It is used only
// if the page is encrypted or listens on a loopback address: tokens are never sent over a network in plain text.
struct PageContents {
  std::map<std::string, http::Site::Source> sources;  // by name: GET /api/NAME
  http::Site::Admit admit;                            // null: the cluster has no tokens
};

// The page's encryption.
struct PageSecurity {
  std::shared_ptr<net::Tls> tls;         // null: the page is not encrypted
  std::string authority;                 // the certificate of the cluster's authority, if it certifies the page; else empty
  std::function<absl::Status()> reload;  // reads the files of a certificate of another authority again; null: there are none
};

// Prepares the page's encryption. `identity`: the cluster's, which certifies the page; null: the cluster has none. INVALID_ARGUMENT
// names the missing or wrong flag.
absl::StatusOr<PageSecurity> SecurePage(const PageFlags& options, identity::ClusterIdentity* identity);
// Serves the page. Returns null if no address is given. INVALID_ARGUMENT: as above; NOT_FOUND: the page is not installed. `executor`
// and `clock` outlive the server and its posted tasks.
absl::StatusOr<std::unique_ptr<http::Server>> ServePage(const PageFlags& options, PageContents contents,
                                                        const PageSecurity& security, Executor* executor, Clock* clock);

}  // namespace pw
