#include "pathways/identity/credentials.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"
#include "pathways/identity/token_file.h"

namespace pw::identity {

void DeclareCredentials(CredentialOptions* options, const std::string& token_of, Flags* flags) {
  flags->Add("token-file", &options->token_file, "PATH",
             absl::StrCat("a file with the cluster's authority and ", token_of,
                          " token, as 'pathways token create' prints it; only its owner may be able to "
                          "read it. Needed where the address is not a Unix socket"));
  flags->Add("tls", &options->tls, "on|off",
             "off: TCP connections are not encrypted, and no peer proves its identity; only for a cluster that was started so");
}

std::string TlsIsOff(const std::string& address) {
  return absl::StrCat("TLS IS OFF at ", address, ": whoever reaches that network can read, change and stop everything");
}

absl::StatusOr<Credentials> CredentialsFor(const std::string& address, const CredentialOptions& options) {
  if (options.tls != "on" && options.tls != "off") return absl::InvalidArgumentError("--tls must be on or off");
  const bool on_this_machine = absl::StartsWith(address, "unix:");
  Credentials credentials;
  TokenFile file;
  if (!options.token_file.empty()) {
    PW_ASSIGN_OR_RETURN(file, ReadTokenFile(options.token_file));
    credentials.token = file.token;
    if (!file.token_from.empty()) {
      PW_ASSIGN_OR_RETURN(credentials.token, TokenSource::At(file.token_from));
    }
  }
  if (options.tls == "off" || file.tls_off) {
    if (!on_this_machine) {
      PW_LOG_WARNING << TlsIsOff(address);
    }
    return credentials;
  }
  if (options.token_file.empty() && !on_this_machine) {
    return absl::InvalidArgumentError(
        absl::StrCat(address,
                     " is on a network, and there is no token for it: an operator makes one by 'pathways token create', "
                     "'pathways login' stores it, and "
                     "--token-file names it. --tls off speaks to whoever listens there, without encryption"));
  }
  PW_ASSIGN_OR_RETURN(credentials.tls, net::Tls::Create(file.authority));
  return credentials;
}

}  // namespace pw::identity
