#include "pathways/controller/cluster/members/membership.h"

#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/log.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/controller/cluster_info.h"

namespace pw::controller {

using ::pathways::v1::Command;

namespace {

// "devices 4,5"
std::string DevicesOf(const resource::Host& host) {
  auto number = [](std::string* out, DeviceId device) { absl::StrAppend(out, device.v); };
  return absl::StrCat(host.devices.size() == 1 ? "device " : "devices ", absl::StrJoin(host.devices, ",", number));
}

}  // namespace

void Membership::Add(HostId id, ::pathways::v1::Hello hello, net::FrameSink* sink) {
  parts_.fabric->AddHost(id, sink);
  parts_.fabric->SetProcessAddress(id, hello.process_address());
  parts_.fabric->SetLaneAddress(id, hello.lane_address());
  hosts_[id] = std::move(hello);
}

std::vector<HostId> Membership::hosts() const { return SortedKeys(hosts_); }

std::string Membership::NameOf(HostId host) const {
  const resource::Topology& topology = parts_.fabric->topology();
  return topology.Describe(*topology.FindHost(host));
}

void Membership::TakeSeat(HostId id) {
  const resource::Host host = *parts_.fabric->topology().FindHost(id);
  const absl::Status lost = parts_.fabric->devices().SetBack(host.devices);
  if (lost.ok()) return;
  const std::string name = NameOf(id);
  PW_LOG_INFO << name << " has taken the seat of a host that was lost: " << DevicesOf(host);
  const absl::Status until_loaded = absl::DataLossError(absl::StrCat(
      name, " has joined with ", DevicesOf(host), ": your programs are being loaded there; before, ", lost.message()));
  for (SessionImpl* session : parts_.sessions->All()) session->OnSeatTaken(host.devices, until_loaded);
}

void Membership::Announce() {
  Fabric& fabric = *parts_.fabric;
  std::vector<const ::pathways::v1::Hello*> hellos;
  Command command;
  std::set<HostId> there;
  for (const auto& [host, hello] : hosts_) there.insert(host);
  parts_.reports->SetHosts(there);
  for (const auto& [host, hello] : hosts_) {
    hellos.push_back(&hello);
    auto& peer = *command.mutable_peers()->add_peers();
    peer.set_host(host.v);
    peer.set_address(hello.data_address());
    peer.set_takes_shared(fabric.takes_shared(host));
    peer.set_name(NameOf(host));
    if (const std::optional<HostId> speaker = parts_.reports->report_groups().Of(host)) peer.set_reports_through(speaker->v);
  }
  for (const auto& [host, hello] : hosts_) fabric.outbox().Add(host, command);
  parts_.housekeeping->SetHosts(std::move(there));
  info_ = MakeClusterInfo(fabric.topology(), hellos);
  topology_changed_();
}

absl::Status Membership::LossError(const resource::Host& host, absl::Time since, const absl::Status& reason) const {
  absl::Status error = absl::DataLossError(absl::StrCat(
      parts_.fabric->topology().Describe(host), " is gone since ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", context_.clock()->TimeOfDay(since), absl::UTCTimeZone()),
      "; waiting for a host to take its seat (its ", DevicesOf(host), " and what lay there are lost: ", reason.message(), ")"));
  error.SetPayload(kHostLost, absl::Cord());
  return error;
}

std::optional<absl::Status> Membership::Lose(HostId id, absl::Time since, const absl::Status& reason) {
  if (hosts_.erase(id) == 0) return std::nullopt;
  const resource::Host host = *parts_.fabric->topology().FindHost(id);
  const absl::Status error = LossError(host, since, reason);
  PW_LOG_ERROR << error.message();
  parts_.observation->Note("host lost", absl::StrCat(NameOf(id), ": ", reason.message()));
  LoseDevices(host, error);
  parts_.housekeeping->RemoveHost(id, error);
  Announce();
  return error;
}

void Membership::LoseDevices(const resource::Host& host, const absl::Status& error) {
  Fabric& fabric = *parts_.fabric;
  const HostId id = host.id;
  const std::vector<DeviceId> virtual_devices = fabric.topology().VirtualDevicesOf(id);
  fabric.topology().RemoveHost(id).IgnoreError();
  fabric.devices().SetGone(virtual_devices, error);
  absl::flat_hash_set<DeviceId> devices(host.devices.begin(), host.devices.end());
  devices.insert(virtual_devices.begin(), virtual_devices.end());
  const std::vector<SessionImpl*> sessions = parts_.sessions->All();
  for (SessionImpl* session : sessions) session->OnDevicesLost(devices, error);
  fabric.RemoveHost(id, host.devices, error);
  for (SessionImpl* session : sessions) session->lane_routes()->OnHostLost(id, error);
}

void Membership::AddTo(StatusReport* report) const {
  Fabric& fabric = *parts_.fabric;
  report->platform_name = info_->platform_name;
  report->stablehlo_version = info_->stablehlo_version;
  if (snapshot_ == nullptr || snapshot_->epoch != fabric.topology().epoch())
    snapshot_ = std::make_shared<const resource::Snapshot>(fabric.topology().TakeSnapshot());
  report->topology = snapshot_;
  for (const auto& [host, hello] : hosts_) {
    HostStatus& status = report->hosts[host];
    status.pid = hello.pid();
    status.ops_in_flight = static_cast<int64_t>(fabric.ops().CountFor(host));
    const dispatch::CommandCounters& sent = fabric.outbox().counters(host);
    for (const auto& [kind, count] : sent.commands)
      status.commands.emplace_back(Command::descriptor()->FindFieldByNumber(kind)->name(), count);
    if (sent.runs > 0) status.commands.emplace_back("run_program", sent.runs);
  }
}

}  // namespace pw::controller
