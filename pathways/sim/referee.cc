#include "pathways/sim/referee.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/worker/execute/program_executor.h"

namespace pw::sim {
namespace {

// Further violations are not kept.
constexpr size_t kMaxViolations = 50;

// Returns the name in the controller's error for the devices of a lost host: "host 'w3.2' of ...". A client may learn of a device when its
// host is lost already.
std::optional<std::string> NameOfLost(const absl::Status& error) {
  const std::vector<std::string> parts = absl::StrSplit(error.message(), '\'');
  return parts.size() < 3 ? std::nullopt : std::optional(parts[1]);
}

}  // namespace

void Referee::Violation(const std::string& what) {
  if (violations_.size() < kMaxViolations && said_.insert(what).second)
    violations_.push_back(absl::StrCat("at ", absl::FormatDuration(world_->elapsed()), ": ", what));
}

// Notes all hosts that have a seat now.
void Referee::Observe() {
  const resource::Topology& topology = cluster_->fabric().topology();
  if (std::exchange(epoch_, topology.epoch()) == topology.epoch()) return;
  for (HostId id : topology.hosts()) {
    const resource::Host& host = *topology.FindHost(id);
    ids_[host.name] = id.v;
    seat_[host.name].insert(host.devices.begin(), host.devices.end());
  }
}

std::string Referee::HostOf(int32_t device) {
  Observe();
  auto host = cluster_->fabric().topology().GetHostOf(DeviceId(device));
  if (host.ok()) return (*host)->name;
  return NameOfLost(cluster_->fabric().devices().Check({DeviceId(device)})).value_or(absl::StrCat("device ", device));
}

bool Referee::Lost(const std::string& host) {
  const auto it = ids_.find(host);
  return it == ids_.end() || cluster_->fabric().topology().FindHost(HostId(it->second)) == nullptr;
}

bool Referee::Excused(const std::set<std::string>& places, const absl::Status& error) {
  if (controller_died_ && error.code() == absl::StatusCode::kUnavailable) return true;
  Observe();
  const auto shares_seat = [&](const std::string& host) {
    const std::set<DeviceId>& seat = seat_[host];
    return places.contains(host) || std::any_of(places.begin(), places.end(), [&](const std::string& place) {
             return std::any_of(seat.begin(), seat.end(), [&](DeviceId device) { return seat_[place].contains(device); });
           });
  };
  std::set<std::string> hosts = places;
  for (const auto& [host, id] : ids_) {
    if (shares_seat(host)) hosts.insert(host);
  }
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return (Lost(host) || died_.contains(host)) && absl::StrContains(error.message(), absl::StrCat("'", host, "'"));
  });
}

void Referee::OnSlice(SliceId slice, const std::vector<DeviceId>& devices, bool exclusive) {
  for (const auto& [other, held] : slices_) {
    if (other == slice) Violation(absl::StrCat("two clients have ", ToString(slice)));
    for (DeviceId device : held.devices) {
      if ((exclusive || held.exclusive) && std::find(devices.begin(), devices.end(), device) != devices.end())
        Violation(
            absl::StrCat(ToString(slice), " and ", ToString(other), " are on ", ToString(device), ", and one is exclusive"));
    }
  }
  slices_[slice] = {devices, exclusive};
}

void Referee::CheckHosts() {
  for (const auto& [name, id] : ids_) {
    if (Lost(name) && !struck_.contains(name))
      Violation(absl::StrCat("host ", name, " was given up, and nothing had happened to it"));
  }
}

void Referee::CheckCompletions() {
  const size_t waiting = cluster_->fabric().ops().size();
  if (struck_.empty() && !controller_died_ && waiting > 0) {
    Violation(absl::StrCat("the controller waits for ", waiting, " completions after the last session has ended"));
  }
}

void Referee::CheckLaunches(const std::map<std::string, std::vector<int>>& launches) {
  std::map<std::string, std::map<int, size_t>> place;  // position of each launch in each host's order
  for (const auto& [host, order] : launches) {
    for (size_t i = 0; i < order.size(); ++i) {
      if (!place[host].emplace(order[i], i).second) Violation(absl::StrCat(host, " launched computation ", order[i], " twice"));
    }
  }
  for (auto a = launches.begin(); a != launches.end(); ++a) {
    for (auto b = std::next(a); b != launches.end(); ++b) {
      size_t last = 0;
      for (int launch : a->second) {
        if (!worker::ProgramExecutor::SpansHosts(launch)) continue;  // other hosts reuse the number for other computations
        const auto there = place[b->first].find(launch);
        if (there == place[b->first].end()) continue;
        if (there->second < last) Violation(absl::StrCat(a->first, " and ", b->first, " ran ", launch, " in different orders"));
        last = there->second;
      }
    }
  }
}

}  // namespace pw::sim
