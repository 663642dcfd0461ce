#include "pathways/controller/cluster/members/host_certificates.h"

#include "absl/status/statusor.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::controller {

std::string HostCertificates::Certify(HostId host, const ::pathways::v1::Hello& hello, absl::Time now) {
  if (identity_ == nullptr || hello.public_key().empty()) return "";
  absl::StatusOr<std::string> chain = identity_->CertifyWorker(hello.public_key(), hello.host_name());
  if (!chain.ok()) {
    PW_LOG_WARNING << "host '" << hello.host_name() << "' gets no certificate: " << chain.status().message();
    return "";
  }
  certified_[host] = {.host_name = hello.host_name(), .when = now};
  return *std::move(chain);
}

void HostCertificates::OnTick(absl::Time now) {
  for (auto& [id, host] : certified_) {
    if (now - host.when < kRenewAfter) continue;
    host.when = now;
    host.asked = true;
    ::pathways::v1::Command command;
    command.mutable_new_key();
    send_(id, std::move(command));
  }
}

absl::Status HostCertificates::OnPublicKey(HostId host, const std::string& public_key) {
  const auto it = certified_.find(host);
  if (it == certified_.end() || !it->second.asked) {
    return absl::FailedPreconditionError("the host wants a certificate for a new key, for which it was not asked");
  }
  it->second.asked = false;
  ::pathways::v1::Command command;
  PW_ASSIGN_OR_RETURN(*command.mutable_certificate()->mutable_chain(),
                      identity_->CertifyWorker(public_key, it->second.host_name));
  send_(host, std::move(command));
  return absl::OkStatus();
}

}  // namespace pw::controller
