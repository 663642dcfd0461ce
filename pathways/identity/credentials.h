// Credentials: with what a process goes to a cluster at an address. Every process that connects asks for them here, so that none speaks plainly
// over a network because somebody forgot something.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/flags.h"
#include "pathways/net/tls.h"

namespace pw::identity {

struct CredentialOptions {
  std::string token_file;  // empty: none
  std::string tls = "on";  // "off": plain, and anybody may listen there
};

// Adds the flags --token-file and --tls. `token_of`: "a user's", "a join token's"
void DeclareCredentials(CredentialOptions* options, const std::string& token_of, Flags* flags);

struct Credentials {
  std::shared_ptr<net::Tls> tls;  // for AsioOptions; null: TLS is off
  std::string token;              // empty: none is needed
};

// Unix sockets need nothing. HOST:PORT needs a token file, or TLS turned off: by the options, or in the file, by an operator who has turned it off
// for the whole cluster. INVALID_ARGUMENT says what is missing.
absl::StatusOr<Credentials> CredentialsFor(const std::string& address, const CredentialOptions& options);

// Returns the warning that is logged where TLS is off.
std::string TlsIsOff(const std::string& address);

}  // namespace pw::identity
