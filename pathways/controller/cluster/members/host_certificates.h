// HostCertificates: the certificates by which hosts prove to each other, and to lanes, who they are (docs/security.md). A host
// that has shown a public key gets one with its Welcome. Long before that one expires, the host is asked for a new key, and gets a
// certificate for it. So nobody can use a key that was stolen from a host for longer than its last certificate is valid.
//
// Invariants:
//   CF-1  only hosts that have joined and are not lost are certified
//   CF-2  after its Welcome, a host gets one certificate for each time that it is asked, and none unasked
// Strand-confined.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/base/ids.h"
#include "pathways/identity/cluster_identity.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class HostCertificates {
 public:
  static constexpr absl::Duration kRenewAfter = absl::Hours(24);
  using Send = std::function<void(HostId host, ::pathways::v1::Command command)>;

  // `identity`, which may be null (no authority), must outlive this.
  HostCertificates(identity::ClusterIdentity* identity, Send send) : identity_(identity), send_(std::move(send)) {}

  // Certifies the key of a host that joins. Returns the chain; empty: the host wants none, or there is no authority.
  std::string Certify(HostId host, const ::pathways::v1::Hello& hello, absl::Time now);
  void Forget(HostId host) { certified_.erase(host); }
  // Asks the hosts for new keys whose last certificates are as old as kRenewAfter, and those again that did not answer for as long.
  void OnTick(absl::Time now);
  // Certifies the new key of a host, and sends it the certificate. An error, if the host was not asked or this is no key, ends its link.
  absl::Status OnPublicKey(HostId host, const std::string& public_key);

 private:
  struct Certified {
    std::string host_name;
    absl::Time when;
    bool asked = false;  // for a new key
  };

  identity::ClusterIdentity* const identity_;
  const Send send_;
  std::map<HostId, Certified> certified_;
};

}  // namespace pw::controller
