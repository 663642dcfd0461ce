// Certificates of one cluster: its authority (CA), and the certificates that the authority signs for the controller and the
// workers. Pure: no files, no clock.
//
// Keys are EC P-256. A certificate names the part of its owner, as the DNS name controller.pathways or worker.pathways, and no
// address: addresses change. Peers identify the cluster by the fingerprint of its authority. Browsers know a server by its name or
// address alone, so a server for them has a certificate of another kind (CertifyServer).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace pw::net {

enum class Part { kController, kWorker };

struct Authority {
  std::string certificate_pem;
  std::string key_pem;
};

// Makes an authority with a new key. `name` is for people to read.
absl::StatusOr<Authority> MakeAuthority(const std::string& name, absl::Time now);

// Returns a new private key, as PEM.
absl::StatusOr<std::string> NewKey();
// Returns the public key that belongs to a private key, in DER.
absl::StatusOr<std::string> PublicKeyOf(const std::string& key_pem);

// Certifies that the owner of this public key plays this part until `end`. Returns the chain to show: the certificate and the
// authority's. Returns INVALID_ARGUMENT if it is not a P-256 key.
absl::StatusOr<std::string> Certify(const Authority& authority, const std::string& public_key_der, Part part,
                                    const std::string& name, absl::Time now, absl::Time end);

// Certifies that the owner of this public key serves these names and addresses (IPv6 without brackets) until `end`, for browsers.
// The certificate plays no part in the cluster. Returns the chain to show. Returns INVALID_ARGUMENT if it is not a P-256 key, if a
// name is no host name, or if one is below ".pathways", which names parts.
absl::StatusOr<std::string> CertifyServer(const Authority& authority, const std::string& public_key_der,
                                          const std::vector<std::string>& names, absl::Time now, absl::Time end);

// Returns the SHA-256 of the last certificate in a chain, the authority's: 32 bytes.
absl::StatusOr<std::string> AuthorityFingerprint(const std::string& chain_pem);
// Returns the time at which the first certificate of a chain ends.
absl::StatusOr<absl::Time> EndOf(const std::string& chain_pem);

// Returns the DNS name in certificates of this part.
const char* DnsNameOf(Part part);

}  // namespace pw::net
