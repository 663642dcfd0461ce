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
  if (!hosts_.empty()) return hosts_.begin()->second.hello.platform_name();
  for (const auto& [id, link] : links_) {
    if (link.state == LinkState::kPending) return link.hello.platform_name();
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
    LosePredecessor(hello);
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

// Tells the worker why, so that it exits instead of trying again. Strangers that were too many or too slow are not told: their
// next attempt may succeed.
void ClusterImpl::Refuse(LinkId id, const absl::Status& reason) {
  strangers_.Remove(id);
  PW_LOG_WARNING << "refused a worker at " << links_[id].link->connection()->peer() << ": " << reason.message();
  links_[id].state = LinkState::kLeaving;
  if (!absl::IsResourceExhausted(reason) && !absl::IsDeadlineExceeded(reason)) {
    ToWorker message;
    message.set_beside(true);
    message.add_commands()->mutable_shutdown()->set_reason(std::string(reason.message()));
    links_[id].link->connection()->Send(message.SerializeAsString());
  }
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

std::string ClusterImpl::Certify(JoinedHost& host) {
  host.certified = environment_.clock->Now();
  if (options_.identity == nullptr || host.hello.public_key().empty()) return "";
  absl::StatusOr<std::string> chain = options_.identity->CertifyWorker(host.hello.public_key(), host.hello.host_name());
  if (chain.ok()) return *std::move(chain);
  PW_LOG_WARNING << "host '" << host.hello.host_name() << "' gets no certificate: " << chain.status().message();
  return "";
}

void ClusterImpl::RenewCertificates(absl::Time now) {
  for (auto& [id, host] : hosts_) {
    if (now - host.certified < kRenewCertificates) continue;
    std::string chain = Certify(host);
    if (chain.empty()) continue;
    Command command;
    command.mutable_certificate()->set_chain(std::move(chain));
    fabric_->outbox().Add(id, std::move(command));
  }
}

void ClusterImpl::Admit(LinkId id, HostId host_id) {
  Link& link = links_[id];
  link.state = LinkState::kHost;
  link.host = host_id;
  JoinedHost& joined = hosts_[host_id];
  joined.hello = std::move(link.hello);
  joined.link = id;
  joined.own_end = joined.hello.own_end();
  joined.last_heard = link.last_heard;
  const bool resumable = link.link->connection()->breakable() && options_.host_grace > absl::ZeroDuration();
  joined.stream = std::make_unique<net::ResumableLink>(link.link->connection(), resumable);
  if (resumable) joined.key = options_.make_key();
  fabric_->AddHost(host_id, joined.stream.get());
  fabric_->SetProcessAddress(host_id, joined.hello.process_address());
  fabric_->SetLaneAddress(host_id, joined.hello.lane_address());
  const resource::Host& host = *fabric_->topology().FindHost(host_id);
  Command command;
  auto& welcome = *command.mutable_welcome();
  welcome.set_host(host_id.v);
  welcome.set_island(host.island.v);
  welcome.set_incarnation(incarnation_);
  welcome.set_certificate(Certify(joined));
  welcome.set_key(joined.key);
  welcome.set_grace_seconds(absl::ToDoubleSeconds(options_.host_grace));
  welcome.set_heartbeat_seconds(absl::ToDoubleSeconds(options_.heartbeat_limit) / 3);
  for (DeviceId device : host.devices) welcome.add_device_ids(device.v);
  if (probe_.valid()) {
    net::WriteName(probe_.name(), welcome.mutable_probe()->mutable_memory());
    welcome.mutable_probe()->set_secret(probe_.secret());
  }
  welcome.set_takes_shared(joined.hello.has_probe() &&
                           net::VerifyProbe(net::ReadName(joined.hello.probe().memory()), joined.hello.probe().secret()));
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
  for (const auto& [host, joined] : hosts_) there.insert(host);
  reports_->SetHosts(there);
  for (const auto& [host, joined] : hosts_) {
    hellos.push_back(&joined.hello);
    auto& peer = *command.mutable_peers()->add_peers();
    peer.set_host(host.v);
    peer.set_address(joined.hello.data_address());
    peer.set_takes_shared(fabric_->takes_shared(host));
    peer.set_name(fabric_->topology().Describe(*fabric_->topology().FindHost(host)));
    if (const std::optional<HostId> speaker = report_groups().Of(host)) peer.set_reports_through(speaker->v);
  }
  for (const auto& [host, joined] : hosts_) fabric_->outbox().Add(host, command);
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

void ClusterImpl::EndLink(LinkId id, const absl::Status& reason) {
  auto it = links_.find(id);
  if (it == links_.end()) return;
  Link& link = it->second;
  if (link.state == LinkState::kLeaving) return;
  if (link.state == LinkState::kHost) return LoseHost(link.host, reason);
  if (std::exchange(link.state, LinkState::kLeaving) == LinkState::kPending) {
    PW_LOG_WARNING << "host '" << link.hello.host_name() << "' left before the cluster formed: " << reason.message();
  }
  link.link->connection()->Close(reason);
}

void ClusterImpl::LoseHost(HostId id, const absl::Status& reason) {
  const auto lost = hosts_.extract(id);
  if (lost.empty()) return;
  const JoinedHost& joined = lost.mapped();
  const resource::Host host = *fabric_->topology().FindHost(id);
  const absl::Time now = environment_.clock->Now();
  const absl::Status error = LossError(host, absl::IsDeadlineExceeded(reason) ? joined.last_heard : now, reason);
  PW_LOG_ERROR << error.message();
  observation_->Note("host lost", absl::StrCat(fabric_->topology().Describe(host), ": ", reason.message()));
  if (!joined.key.empty()) {
    if (given_up_.size() == kMostGivenUp) given_up_.pop_front();
    given_up_.push_back({id, joined.key, std::string(error.message())});
  }
  const std::vector<DeviceId> virtual_devices = fabric_->topology().VirtualDevicesOf(id);
  fabric_->topology().RemoveHost(id).IgnoreError();
  fabric_->devices().SetGone(virtual_devices, error);
  absl::flat_hash_set<DeviceId> devices(host.devices.begin(), host.devices.end());
  devices.insert(virtual_devices.begin(), virtual_devices.end());
  const std::vector<SessionImpl*> sessions = sessions_->All();
  for (SessionImpl* session : sessions) session->OnDevicesLost(devices, error);
  fabric_->RemoveHost(id, host.devices, error);
  for (SessionImpl* session : sessions) session->lane_routes()->OnHostLost(id, error);
  housekeeping_->RemoveHost(id, error);
  MembershipChanged();
  if (joined.link == 0) return;
  if (joined.key.empty()) {
    links_.at(joined.link).state = LinkState::kLeaving;
    links_.at(joined.link).link->connection()->Close(reason);
  } else {
    GiveUp(joined.link, std::string(error.message()));
  }
}

void ClusterImpl::ScheduleTick() {
  environment_.timers->After(tick(), &strand_, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr || self->stopped_) return;
    self->Tick();
    self->ScheduleTick();
  });
}

bool ClusterImpl::Starved(Link& link, absl::Time now) {
  if (link.state != LinkState::kHost || link.link->connection()->proof() != net::PeerProof::kOwn || !options_.watch_process)
    return false;
  JoinedHost& host = hosts_.at(link.host);
  const absl::Duration silence = now - link.last_heard;
  if (silence <= options_.heartbeat_limit / 2) {
    host.watch = nullptr;
    return false;
  }
  if (host.watch == nullptr) {
    host.watch = options_.watch_process(host.hello.pid());
    host.starved = absl::InfinitePast();
  }
  const bool known = host.starved != absl::InfinitePast();
  if (host.watch(now)) host.starved = now;
  if (!known && host.starved == now) {
    PW_LOG_WARNING << fabric_->topology().Describe(*fabric_->topology().FindHost(link.host)) << " has been silent for "
                   << absl::FormatDuration(silence)
                   << " and waits for a processor: this machine has more to do than its processors can";
  }
  // Its threads run one after another, so one look may find none of them waiting.
  return now - host.starved < options_.heartbeat_limit / 4 && silence <= kStarved * options_.heartbeat_limit;
}

std::vector<LinkId> ClusterImpl::PingLinks(absl::Time now, bool slept) {
  std::vector<LinkId> silent;
  ToWorker ping;
  ping.set_beside(true);
  ping.add_commands()->mutable_ping()->set_sequence(next_ping_++);
  for (auto& [id, link] : links_) {
    if (slept) link.last_heard = now;
    const bool starved = Starved(link, now);
    if (now - link.last_heard > options_.heartbeat_limit && !starved) {
      silent.push_back(id);
      continue;
    }
    if (link.state != LinkState::kHost && link.state != LinkState::kPending) continue;
    ping.clear_received();
    if (link.state == LinkState::kHost) {
      JoinedHost& host = hosts_.at(link.host);
      if (slept) host.last_heard = now;
      const net::ResumableLink::Counts received = host.stream->received();
      if (host.stream->resumable())
        ping.mutable_received()->set_urgent(received.urgent), ping.mutable_received()->set_bulk(received.bulk);
    }
    link.link->connection()->Send(ping.SerializeAsString());
  }
  return silent;
}

void ClusterImpl::Tick() {
  const absl::Time now = environment_.clock->Now();
  // If this process was stopped itself, silence is not the hosts' fault.
  const bool slept = SleptUntil(now);
  const absl::Duration since_last = now - std::exchange(last_tick_, now);
  DropSlowStrangers(now);
  RenewCertificates(now);
  const std::vector<LinkId> silent = PingLinks(now, slept);
  housekeeping_->WatchHealth();
  observation_->Tick(slept, sessions_->All());
  ApplyQuotas();
  fabric_->gangs().recent().Tick(now);
  for (SessionImpl* session : sessions_->All()) session->OnTick(now, slept);
  for (LinkId id : silent) OnSilent(id);
  WatchAway(now, slept ? since_last : absl::ZeroDuration());
  fabric_->losses().OnTick(now);
}

}  // namespace pw::controller
