// HostCertificates: the certificates by which hosts prove to each other, and to lanes, who they are (docs/security.md). A host
// that has shown a public key gets one with its Welcome, and a new one long before the old one expires.
//
// Invariant CF-1: only hosts that have joined and are not lost are certified.
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class HostCertificates {
 public:
  static constexpr absl::Duration kRenewAfter = absl::Hours(24);
  using Send = std::function<void(HostId host, std::string chain)>;

  // `identity`, which may be null (no authority), must outlive this. `send` brings a new certificate to its host.
  HostCertificates(identity::ClusterIdentity* identity, Send send) : identity_(identity), send_(std::move(send)) {}

  // Certifies the key of a host that joins. Returns the chain; empty: the host wants none, or there is no authority.
  std::string Certify(HostId host, const ::pathways::v1::Hello& hello, absl::Time now);
  void Forget(HostId host) { certified_.erase(host); }
  void OnTick(absl::Time now);  // sends new certificates to the hosts whose last ones are as old as kRenewAfter

 private:
  struct Certified {
    std::string public_key;
    std::string host_name;
    absl::Time when;
  };
  std::string Make(const Certified& host) const;

  identity::ClusterIdentity* const identity_;
  const Send send_;
  std::map<HostId, Certified> certified_;
};

}  // namespace pw::controller
