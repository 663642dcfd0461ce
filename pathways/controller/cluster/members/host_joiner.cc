#include "pathways/controller/cluster/members/host_joiner.h"

#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/sha256.h"
#include "pathways/controller/cluster_info.h"

namespace pw::controller {

using ::pathways::v1::Command;
using ::pathways::v1::Hello;

namespace {

uint64_t NumberFrom(const std::string& key) {
  const std::string hash = Sha256(key);
  uint64_t number = 0;
  std::memcpy(&number, hash.data(), sizeof(number));
  return number;
}

}  // namespace

HostJoiner::HostJoiner(ClusterContext context, const Parts& parts)
    : context_(std::move(context)),
      parts_(parts),
      probe_(context_.options().share_memory),
      incarnation_(NumberFrom(context_.options().make_key())) {}

std::string HostJoiner::platform() const {
  if (!parts_.members->empty()) return parts_.members->platform();
  return pending_.empty() ? "" : pending_.begin()->second.platform_name();
}

void HostJoiner::OnHello(LinkId link, const Hello& shown) {
  if (absl::Status status = CheckHello(shown, platform()); !status.ok()) return parts_.links->Refuse(link, status);
  Hello hello = shown;
  hello.clear_token();
  parts_.fabric->SkipIds(hello.last_launch());
  if (formed_) {
    parts_.streams->LosePredecessor(hello.data_address());
    absl::StatusOr<HostId> host = parts_.fabric->topology().AddHost(DescribeHost(hello));
    if (!host.ok()) return parts_.links->Refuse(link, host.status());
    Admit(link, *host, std::move(hello));
    parts_.members->Announce();
    return parts_.members->TakeSeat(*host);
  }
  const int expected = context_.options().expect_hosts;
  parts_.links->SetPending(link);
  pending_[link] = hello;
  PW_LOG_INFO << "host '" << hello.host_name() << "' of island '" << hello.island() << "' has joined with "
              << hello.devices_size() << " " << hello.platform_name() << " devices (" << pending_.size() << " of " << expected
              << " hosts)";
  if (static_cast<int>(pending_.size()) >= expected) return Form();
  const bool waits = context_.options().controller_grace > absl::ZeroDuration();
  if (hello.has_former() && waits && !std::exchange(returning_, true)) FormInTime();
}

void HostJoiner::FormInTime() {
  context_.After(context_.options().controller_grace, [this] {
    if (formed_) return;
    PW_LOG_WARNING << "the cluster forms with " << pending_.size() << " of " << context_.options().expect_hosts
                   << " hosts: the others have not come back within "
                   << absl::FormatDuration(context_.options().controller_grace);
    if (!pending_.empty()) return Form();
    returning_ = false;
  });
}

void HostJoiner::OnPendingLeft(LinkId link, const absl::Status& reason) {
  const auto left = pending_.extract(link);
  PW_LOG_WARNING << "host '" << left.mapped().host_name() << "' left before the cluster formed: " << reason.message();
}

void HostJoiner::WhenFormed(Task task) {
  context_.Post([this, task = std::move(task)]() mutable {
    if (formed_) return std::move(task)();
    when_formed_.push_back(std::move(task));
  });
}

void HostJoiner::Form() {
  std::map<LinkId, Hello> pending = std::exchange(pending_, {});
  std::vector<resource::HostDescription> descriptions;
  for (const auto& [link, hello] : pending) descriptions.push_back(DescribeHost(hello));
  absl::StatusOr<std::vector<HostId>> hosts = parts_.fabric->topology().FormCluster(std::move(descriptions));
  if (!hosts.ok()) {  // each was checked by itself; a failure of all together is a bug of ours
    for (const auto& [link, hello] : pending) parts_.links->Refuse(link, hosts.status());
    return;
  }
  formed_ = true;
  size_t next = 0;
  // Admit tells each of them what to keep.
  for (auto& [link, hello] : pending) Admit(link, (*hosts)[next++], std::move(hello));
  parts_.former_sessions->OnFormed();
  parts_.members->Announce();
  PW_LOG_INFO << "the cluster has formed: " << parts_.fabric->topology().Summary();
  for (Task& task : std::exchange(when_formed_, {})) context_.Post(std::move(task));
}

void HostJoiner::Admit(LinkId link, HostId host, Hello hello) {
  net::FrameSink* const sink = parts_.streams->Add(host, link, hello);
  Command command;
  *command.mutable_welcome() = WelcomeFor(host, hello);
  parts_.members->Add(host, std::move(hello), sink);
  parts_.fabric->outbox().Add(host, std::move(command));
  const std::string name = parts_.members->NameOf(host);
  const Hello& joined = parts_.members->hello(host);
  const auto& former = joined.former();
  const bool of_another = joined.has_former() && joined.epoch() < context_.options().epoch;
  if (!of_another) return parts_.observation->Note("host joined", name);
  parts_.observation->Note("host joined", absl::StrCat(name, ": it has outlived its controller, keeps ", former.programs(),
                                                       " programs, and its parts of ", former.arrays(), " arrays"));
}

::pathways::v1::Welcome HostJoiner::WelcomeFor(HostId host, const Hello& hello) {
  const ClusterOptions& options = context_.options();
  const resource::Host& seated = *parts_.fabric->topology().FindHost(host);
  ::pathways::v1::Welcome welcome;
  welcome.set_host(host.v);
  welcome.set_island(seated.island.v);
  welcome.set_incarnation(incarnation_);
  welcome.set_certificate(parts_.certificates->Certify(host, hello, context_.Now()));
  welcome.set_key(parts_.streams->key(host));
  welcome.set_grace_seconds(absl::ToDoubleSeconds(options.host_grace));
  welcome.set_epoch(options.epoch);
  welcome.set_controller_grace_seconds(absl::ToDoubleSeconds(options.controller_grace));
  for (SessionId session : parts_.former_sessions->Await(host, hello)) welcome.add_kept_sessions(session.v);
  *welcome.mutable_place() = PlaceOf(parts_.fabric->topology(), seated);
  welcome.set_heartbeat_seconds(absl::ToDoubleSeconds(options.heartbeat_limit) / 3);
  for (DeviceId device : seated.devices) welcome.add_device_ids(device.v);
  if (probe_.valid()) {
    net::WriteName(probe_.name(), welcome.mutable_probe()->mutable_memory());
    welcome.mutable_probe()->set_secret(probe_.secret());
  }
  welcome.set_takes_shared(hello.has_probe() && net::VerifyProbe(net::ReadName(hello.probe().memory()), hello.probe().secret()));
  return welcome;
}

absl::Status HostJoiner::CanServe() const {
  if (!formed_) {
    return absl::UnavailableError(absl::StrCat("the cluster has not formed yet: ", pending_.size(), " of ",
                                               context_.options().expect_hosts,
                                               " hosts have joined. Start the missing workers, or try again in a moment."));
  }
  if (parts_.members->empty())
    return absl::UnavailableError("the cluster has lost all its hosts: start workers that join it (pathways worker --join)");
  return absl::OkStatus();
}

void HostJoiner::AddTo(StatusReport* report) const {
  report->formed = formed_;
  report->expected_hosts = context_.options().expect_hosts;
  report->joined_hosts = static_cast<int>(parts_.members->size() + pending_.size());
}

}  // namespace pw::controller
