// Credentials: the TLS settings and token with which a process connects to a cluster. Every process gets them here, so that none
// connects over a network without encryption by mistake.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/process/flags.h"
#include "pathways/identity/token_source.h"
#include "pathways/net/tls/tls.h"

namespace pw::identity {

struct CredentialOptions {
  std::string token_file;  // empty: none
  std::string tls = "on";  // "off": no encryption, and the server's identity is not checked
};

// Adds the flags --token-file and --tls. `token_of`: "a user's", "a join token's"
void DeclareCredentials(CredentialOptions* options, const std::string& token_of, Flags* flags);

struct Credentials {
  std::shared_ptr<net::Tls> tls;  // for AsioOptions; null: TLS is off
  TokenSource token;              // without one if none is needed
};

// Returns the credentials for an address. Unix sockets need none. HOST:PORT needs a token file, or TLS turned off: by the
// options, or by the file if an operator has turned it off for the whole cluster. INVALID_ARGUMENT says what is missing.
absl::StatusOr<Credentials> CredentialsFor(const std::string& address, const CredentialOptions& options);

// Returns the warning that is logged if TLS is off.
std::string TlsIsOff(const std::string& address);

}  // namespace pw::identity
