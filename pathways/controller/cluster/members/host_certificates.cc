#include "pathways/controller/cluster/members/host_certificates.h"

#include "absl/status/statusor.h"
#include "pathways/base/log.h"

namespace pw::controller {

std::string HostCertificates::Certify(HostId host, const ::pathways::v1::Hello& hello, absl::Time now) {
  if (identity_ == nullptr || hello.public_key().empty()) return "";
  return Make(certified_[host] = {hello.public_key(), hello.host_name(), now});
}

std::string HostCertificates::Make(const Certified& host) const {
  absl::StatusOr<std::string> chain = identity_->CertifyWorker(host.public_key, host.host_name);
  if (chain.ok()) return *std::move(chain);
  PW_LOG_WARNING << "host '" << host.host_name << "' gets no certificate: " << chain.status().message();
  return "";
}

void HostCertificates::OnTick(absl::Time now) {
  for (auto& [id, host] : certified_) {
    if (now - host.when < kRenewAfter) continue;
    host.when = now;
    if (std::string chain = Make(host); !chain.empty()) send_(id, std::move(chain));
  }
}

}  // namespace pw::controller
