// Membership: hosts joining, being lost, and the heartbeats that detect the loss.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/log.h"
#include "pathways/controller/cluster/cluster_impl.h"
#include "pathways/controller/cluster/observation.h"
#include "pathways/controller/cluster_info.h"

namespace pw::controller {

using ::pathways::v1::Command;
using ::pathways::v1::ToWorker;

namespace {

// "devices 4,5"
std::string DevicesOf(const resource::Host& host) {
  auto number = [](std::string* out, DeviceId device) { absl::StrAppend(out, device.v); };
  return absl::StrCat(host.devices.size() == 1 ? "device " : "devices ", absl::StrJoin(host.devices, ",", number));
}

}  // namespace

std::string ClusterImpl::platform() const {
  for (const auto& [id, link] : links_) {
    if (link.state == LinkState::kHost || link.state == LinkState::kPending) return link.hello.platform_name();
  }
  return "";
}

std::vector<LinkId> ClusterImpl::PendingLinks() const {
  std::vector<LinkId> pending;
  for (const auto& [id, link] : links_) {
    if (link.state == LinkState::kPending) pending.push_back(id);
  }
  return pending;
}

void ClusterImpl::OnHello(LinkId id, const ::pathways::v1::Hello& hello) {
  Link& link = links_[id];
  if (absl::Status status = AdmitWorker(link, hello.token()); !status.ok()) return Refuse(id, status);
  Trust(id);
  if (absl::Status status = CheckHello(hello, platform()); !status.ok()) return Refuse(id, status);
  link.hello = hello;
  link.hello.clear_token();
  link.state = LinkState::kPending;
  if (formed_) {
    absl::StatusOr<HostId> host = fabric_->topology().AddHost(DescribeHost(hello));
    if (!host.ok()) return Refuse(id, host.status());
    Admit(id, *host);
    MembershipChanged();
    return TakeSeat(*host);
  }
  const size_t joined = PendingLinks().size();
  PW_LOG_INFO << "host '" << hello.host_name() << "' of island '" << hello.island() << "' has joined with "
              << hello.devices_size() << " " << hello.platform_name() << " devices (" << joined << " of " << options_.expect_hosts
              << " hosts)";
  if (static_cast<int>(joined) >= options_.expect_hosts) Form();
}

absl::Status ClusterImpl::AdmitWorker(const Link& link, const std::string& token) {
  const net::PeerProof proof = link.link->connection()->proof();
  if (options_.identity != nullptr) return options_.identity->AdmitWorker(proof, token);
  return identity::AdmitWithoutTokens(proof).status();
}

// Tells the worker why, so that it exits: another attempt would be refused again.
void ClusterImpl::Refuse(LinkId id, const absl::Status& reason) {
  std::erase(strangers_, id);
  PW_LOG_WARNING << "refused a worker at " << links_[id].link->connection()->peer() << ": " << reason.message();
  links_[id].state = LinkState::kLeaving;
  ToWorker message;
  message.add_commands()->mutable_shutdown()->set_reason(std::string(reason.message()));
  links_[id].link->connection()->Send(message.SerializeAsString());
  links_[id].link->connection()->Close(reason);
}

void ClusterImpl::WhenFormed(Task task) {
  Post([this, weak = weak_from_this(), task = std::move(task)]() mutable {
    if (weak.expired()) return;
    if (formed_) return std::move(task)();
    when_formed_.push_back(std::move(task));
  });
}

void ClusterImpl::Form() {
  const std::vector<LinkId> pending = PendingLinks();
  std::vector<resource::HostDescription> descriptions;
  for (LinkId id : pending) descriptions.push_back(DescribeHost(links_[id].hello));
  absl::StatusOr<std::vector<HostId>> hosts = fabric_->topology().FormCluster(std::move(descriptions));
  if (!hosts.ok()) {  // each was checked by itself; a failure of all together is a bug of ours
    for (LinkId id : pending) Refuse(id, hosts.status());
    return;
  }
  formed_ = true;
  for (size_t i = 0; i < pending.size(); ++i) Admit(pending[i], (*hosts)[i]);
  MembershipChanged();
  PW_LOG_INFO << "the cluster has formed: " << fabric_->topology().Summary();
  for (Task& task : std::exchange(when_formed_, {})) Post(std::move(task));
}

std::string ClusterImpl::Certify(Link& link) {
  link.certified = environment_.clock->Now();
  if (options_.identity == nullptr || link.hello.public_key().empty()) return "";
  absl::StatusOr<std::string> chain = options_.identity->CertifyWorker(link.hello.public_key(), link.hello.host_name());
  if (chain.ok()) return *std::move(chain);
  PW_LOG_WARNING << "host '" << link.hello.host_name() << "' gets no certificate: " << chain.status().message();
  return "";
}

void ClusterImpl::RenewCertificates(absl::Time now) {
  for (auto& [id, link] : links_) {
    if (link.state != LinkState::kHost || now - link.certified < kRenewCertificates) continue;
    std::string chain = Certify(link);
    if (chain.empty()) continue;
    ToWorker message;
    message.add_commands()->mutable_certificate()->set_chain(std::move(chain));
    link.link->connection()->Send(message.SerializeAsString());
  }
}

void ClusterImpl::Admit(LinkId id, HostId host_id) {
  Link& link = links_[id];
  link.state = LinkState::kHost;
  link.host = host_id;
  hosts_[host_id] = id;
  fabric_->AddHost(host_id, link.link->connection());
  fabric_->SetProcessAddress(host_id, link.hello.process_address());
  fabric_->SetLaneAddress(host_id, link.hello.lane_address());
  const resource::Host& host = *fabric_->topology().FindHost(host_id);
  Command command;
  auto& welcome = *command.mutable_welcome();
  welcome.set_host(host_id.v);
  welcome.set_island(host.island.v);
  welcome.set_incarnation(incarnation_);
  welcome.set_certificate(Certify(link));
  welcome.set_heartbeat_seconds(absl::ToDoubleSeconds(options_.heartbeat_limit) / 3);
  for (DeviceId device : host.devices) welcome.add_device_ids(device.v);
  if (probe_.valid()) {
    net::WriteName(probe_.name(), welcome.mutable_probe()->mutable_memory());
    welcome.mutable_probe()->set_secret(probe_.secret());
  }
  welcome.set_takes_shared(link.hello.has_probe() &&
                           net::VerifyProbe(net::ReadName(link.hello.probe().memory()), link.hello.probe().secret()));
  fabric_->outbox().Add(host_id, std::move(command));
  observation_->Note("host joined", fabric_->topology().Describe(host));
}

void ClusterImpl::TakeSeat(HostId id) {
  const resource::Host host = *fabric_->topology().FindHost(id);
  const absl::Status lost = fabric_->devices().SetBack(host.devices);
  if (lost.ok()) return;
  const std::string name = fabric_->topology().Describe(host);
  PW_LOG_INFO << name << " has taken the seat of a host that was lost: " << DevicesOf(host);
  const absl::Status until_loaded = absl::DataLossError(absl::StrCat(
      name, " has joined with ", DevicesOf(host), ": your programs are being loaded there; before, ", lost.message()));
  for (SessionImpl* session : sessions_->All()) session->OnSeatTaken(host.devices, until_loaded);
}

void ClusterImpl::MembershipChanged() {
  std::vector<const ::pathways::v1::Hello*> hellos;
  Command command;
  std::set<HostId> there;
  for (const auto& [host, link] : hosts_) there.insert(host);
  reports_->SetHosts(there);
  for (const auto& [host, link] : hosts_) {
    hellos.push_back(&links_[link].hello);
    auto& peer = *command.mutable_peers()->add_peers();
    peer.set_host(host.v);
    peer.set_address(links_[link].hello.data_address());
    peer.set_takes_shared(fabric_->takes_shared(host));
    peer.set_name(fabric_->topology().Describe(*fabric_->topology().FindHost(host)));
    if (const std::optional<HostId> speaker = speakers().Of(host)) peer.set_reports_through(speaker->v);
  }
  for (const auto& [host, link] : hosts_) fabric_->outbox().Add(host, command);
  housekeeping_->SetHosts(std::move(there));
  info_ = MakeClusterInfo(fabric_->topology(), hellos);
  slices_->TopologyChanged();
}

absl::Status ClusterImpl::LossError(const resource::Host& host, absl::Time since, const absl::Status& reason) const {
  absl::Status error = absl::DataLossError(absl::StrCat(
      fabric_->topology().Describe(host), " is gone since ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", environment_.clock->TimeOfDay(since), absl::UTCTimeZone()),
      "; waiting for a host to take its seat (its ", DevicesOf(host), " and what lay there are lost: ", reason.message(), ")"));
  error.SetPayload(kHostLost, absl::Cord());
  return error;
}

void ClusterImpl::LoseHost(LinkId id, const absl::Status& reason) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  Link& link = it->second;
  const LinkState state = std::exchange(link.state, LinkState::kLeaving);
  if (state == LinkState::kLeaving) return;
  if (state != LinkState::kHost) {
    if (state == LinkState::kPending) {
      PW_LOG_WARNING << "host '" << link.hello.host_name() << "' left before the cluster formed: " << reason.message();
    }
    return link.link->connection()->Close(reason);
  }
  const resource::Host host = *fabric_->topology().FindHost(link.host);
  const absl::Time now = environment_.clock->Now();
  const absl::Status error = LossError(host, absl::IsDeadlineExceeded(reason) ? link.last_heard : now, reason);
  PW_LOG_ERROR << error.message();
  observation_->Note("host lost", absl::StrCat(fabric_->topology().Describe(host), ": ", reason.message()));
  hosts_.erase(link.host);
  const std::vector<DeviceId> virtual_devices = fabric_->topology().VirtualDevicesOf(link.host);
  fabric_->topology().RemoveHost(link.host).IgnoreError();
  fabric_->devices().SetGone(virtual_devices, error);
  absl::flat_hash_set<DeviceId> devices(host.devices.begin(), host.devices.end());
  devices.insert(virtual_devices.begin(), virtual_devices.end());
  const std::vector<SessionImpl*> sessions = sessions_->All();
  for (SessionImpl* session : sessions) session->OnDevicesLost(devices, error);
  fabric_->RemoveHost(link.host, host.devices, error);
  for (SessionImpl* session : sessions) session->lane_routes()->OnHostLost(link.host, error);
  housekeeping_->RemoveHost(link.host, error);
  MembershipChanged();
  link.link->connection()->Close(reason);
}

void ClusterImpl::ScheduleTick() {
  environment_.timers->After(tick(), &strand_, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr || self->stopped_) return;
    self->Tick();
    self->ScheduleTick();
  });
}

void ClusterImpl::Tick() {
  const absl::Time now = environment_.clock->Now();
  // If this process was stopped itself, silence is not the hosts' fault.
  const bool slept = now - std::exchange(last_tick_, now) > options_.heartbeat_limit / 2;
  DropSlowStrangers(now);
  RenewCertificates(now);
  std::vector<LinkId> silent;
  ToWorker ping;
  ping.add_commands()->mutable_ping()->set_sequence(next_ping_++);
  const std::string frame = ping.SerializeAsString();
  for (auto& [id, link] : links_) {
    if (slept) link.last_heard = now;
    if (now - link.last_heard > options_.heartbeat_limit) {
      silent.push_back(id);
    } else if (link.state == LinkState::kHost || link.state == LinkState::kPending) {
      link.link->connection()->Send(frame);
    }
  }
  housekeeping_->WatchHealth();
  observation_->Tick(slept, sessions_->All());
  fabric_->gangs().recent().Tick(now);
  for (SessionImpl* session : sessions_->All()) session->OnTick(now, slept);
  for (LinkId id : silent) {
    LoseHost(id, absl::DeadlineExceededError(
                     absl::StrCat("nothing heard from it for ", absl::FormatDuration(options_.heartbeat_limit))));
  }
  fabric_->losses().OnTick(now);
}

}  // namespace pw::controller
