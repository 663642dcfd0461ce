#include "pathways/resource/topology.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/resource/natural_order.h"

namespace pw::resource {
namespace {

absl::Status Check(const HostDescription& host) {
  auto bad = [&](std::string what) {
    return absl::InvalidArgumentError(absl::StrCat("host '", host.name, "' cannot join: ", what));
  };
  if (host.name.empty()) return bad("it has no name");
  if (host.island.empty()) return bad("it names no island");
  if (host.platform_name.empty()) return bad("it names no platform");
  if (host.devices.empty()) return bad("it has no devices");
  for (size_t i = 0; i < host.devices.size(); ++i) {
    if (host.devices[i].memories.empty()) return bad(absl::StrCat("its device ", i, " has no memory"));
    std::set<std::string> kinds;
    for (const MemoryDescription& memory : host.devices[i].memories) {
      if (!kinds.insert(memory.kind).second)
        return bad(absl::StrCat("its device ", i, " has two memories of kind '", memory.kind, "'"));
    }
  }
  return absl::OkStatus();
}

template <class T, class Id>
const T* At(const std::vector<std::shared_ptr<const T>>& all, Id id) {
  // Negative ids become large here.
  const size_t index = static_cast<size_t>(id.v);
  return index < all.size() ? all[index].get() : nullptr;
}

template <class T>
std::vector<decltype(T::id)> Ids(const std::vector<std::shared_ptr<const T>>& all) {
  std::vector<decltype(T::id)> ids;
  for (const auto& one : all) {
    if (one) ids.push_back(one->id);
  }
  return ids;
}

template <class T>
std::vector<T> Values(const std::vector<std::shared_ptr<const T>>& all) {
  std::vector<T> values;
  for (const auto& one : all) {
    if (one) values.push_back(*one);
  }
  return values;
}

// Returns whether clients that have seen `a` can use `b` under its ids: same kind, coords and memories.
bool Replaces(const DeviceDescription& a, const DeviceDescription& b) {
  return a.kind == b.kind && a.attributes.lists == b.attributes.lists && a.memories == b.memories;
}

// "3 hosts"
std::string Count(size_t n, const char* what) { return absl::StrCat(n, " ", what, n == 1 ? "" : "s"); }

}  // namespace

Island& Topology::IslandNamed(const std::string& name) {
  const auto [it, inserted] = island_ids_.try_emplace(name, IslandId(static_cast<uint32_t>(islands_.size())));
  if (inserted) islands_.push_back(Island{it->second, name, {}});
  return islands_[it->second.v];
}

bool Topology::IsSeatTaken(IslandId island, int32_t seat) const {
  const auto is_it = [&](const Host& host) { return host.island == island && host.seat == seat; };
  return absl::c_any_of(hosts_, [&](const auto& host) { return host != nullptr && is_it(*host); }) ||
         absl::c_any_of(empty_seats_, [&](const EmptySeat& empty) { return is_it(empty.host); });
}

bool Topology::IsFree(const FormerPlace& place, const HostDescription& host) const {
  size_t memories = 0;
  for (const DeviceDescription& device : host.devices) memories += device.memories.size();
  if (place.devices.size() != host.devices.size() || place.memories.size() != memories) return false;
  const auto named = island_ids_.find(host.island);
  const Island* const there = FindIsland(place.island);
  if (named != island_ids_.end() ? named->second != place.island : there != nullptr && !there->name.empty()) return false;
  if (place.island.v >= kMostFormerIds || place.seat < 0 || place.seat >= kMostFormerIds || IsSeatTaken(place.island, place.seat))
    return false;
  std::set<DeviceId> devices;
  for (DeviceId id : place.devices) {
    if (id.v < 0 || id.v >= kMostFormerIds || FindNowOrFormer(id) != nullptr || !devices.insert(id).second) return false;
  }
  std::set<MemoryId> former;
  for (const EmptySeat& seat : empty_seats_) {
    for (const auto& memory : seat.memories) former.insert(memory->id);
  }
  for (MemoryId id : place.memories) {
    if (id.v < 0 || id.v >= kMostFormerIds || FindMemory(id) != nullptr || !former.insert(id).second) return false;
  }
  return true;
}

EmptySeat Topology::Reserve(const FormerPlace& place, const HostDescription& host) {
  while (islands_.size() <= place.island.v) islands_.push_back({IslandId(static_cast<uint32_t>(islands_.size())), "", {}});
  Island& island = islands_[place.island.v];
  island.name = host.island;
  island_ids_[host.island] = place.island;
  island.seats = std::max(island.seats, place.seat + 1);
  EmptySeat seat;
  seat.host.island = place.island;
  seat.host.seat = place.seat;
  auto memory = place.memories.begin();
  for (size_t i = 0; i < place.devices.size(); ++i) {
    auto device = std::make_shared<Device>();
    device->id = place.devices[i];
    devices_.resize(std::max(devices_.size(), static_cast<size_t>(device->id.v) + 1));
    for (size_t m = 0; m < host.devices[i].memories.size(); ++m) {
      device->memories.push_back(*memory++);
      memories_.resize(std::max(memories_.size(), static_cast<size_t>(device->memories.back().v) + 1));
    }
    seat.devices.push_back(std::move(device));
  }
  return seat;
}

// `former`: the device whose ids this one takes; null for new ids.
void Topology::AddDevice(Host& host, DeviceDescription description, const Device* former) {
  if (former == nullptr) devices_.emplace_back();
  Device device;
  device.id = former == nullptr ? DeviceId(static_cast<int32_t>(devices_.size()) - 1) : former->id;
  device.physical = device.id;
  device.host = host.id;
  device.island = host.island;
  device.local_ordinal = static_cast<int32_t>(host.devices.size());
  for (size_t i = 0; i < description.memories.size(); ++i) {
    const MemoryDescription& memory = description.memories[i];
    if (former == nullptr) memories_.emplace_back();
    const MemoryId id = former == nullptr ? MemoryId(static_cast<int32_t>(memories_.size()) - 1) : former->memories[i];
    memories_[id.v] = std::make_shared<const Memory>(Memory{id, device.id, memory.kind, memory.kind_id});
    device.memories.push_back(id);
  }
  device.description = std::move(description);
  host.devices.push_back(device.id);
  devices_[device.id.v] = std::make_shared<const Device>(std::move(device));
}

// Returns the empty seat that the host takes, if there is one, and removes it from the list.
std::optional<EmptySeat> Topology::TakeSeat(IslandId island, const HostDescription& host) {
  auto fits = [&](const EmptySeat& seat) {
    return seat.host.island == island &&
           absl::c_equal(seat.devices, host.devices, [](const std::shared_ptr<const Device>& a, const DeviceDescription& b) {
             return Replaces(a->description, b);
           });
  };
  auto seat = absl::c_find_if(empty_seats_, [&](const EmptySeat& s) { return fits(s) && s.host.name == host.name; });
  if (seat == empty_seats_.end()) seat = absl::c_find_if(empty_seats_, fits);
  if (seat == empty_seats_.end()) return std::nullopt;
  EmptySeat taken = std::move(*seat);
  empty_seats_.erase(seat);
  return taken;
}

absl::StatusOr<HostId> Topology::AddHost(HostDescription description) {
  PW_RETURN_IF_ERROR(Check(description));
  std::optional<EmptySeat> seat;
  if (description.former.has_value() && IsFree(*description.former, description))
    seat = Reserve(*description.former, description);
  Island& island = IslandNamed(description.island);
  if (!seat.has_value()) seat = TakeSeat(island.id, description);
  Host host;
  host.id = HostId(static_cast<uint32_t>(hosts_.size()));
  host.island = island.id;
  host.seat = seat.has_value() ? seat->host.seat : island.seats++;
  host.name = std::move(description.name);
  host.platform_name = std::move(description.platform_name);
  host.platform_version = std::move(description.platform_version);
  for (size_t i = 0; i < description.devices.size(); ++i)
    AddDevice(host, std::move(description.devices[i]), seat.has_value() ? seat->devices[i].get() : nullptr);
  island.hosts.push_back(host.id);
  const HostId id = host.id;
  hosts_.push_back(std::make_shared<const Host>(std::move(host)));
  ++epoch_;
  return id;
}

absl::StatusOr<std::vector<HostId>> Topology::FormCluster(std::vector<HostDescription> hosts) {
  if (!hosts_.empty()) return absl::FailedPreconditionError("the cluster has formed before; hosts join one by one now");
  for (const HostDescription& host : hosts) PW_RETURN_IF_ERROR(Check(host));
  std::vector<size_t> order(hosts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (hosts[a].former.has_value() != hosts[b].former.has_value()) return hosts[a].former.has_value();
    if (hosts[a].island != hosts[b].island) return NaturalLess(hosts[a].island, hosts[b].island);
    return NaturalLess(hosts[a].name, hosts[b].name);
  });
  std::vector<HostId> ids(hosts.size());
  for (size_t i : order) {
    PW_ASSIGN_OR_RETURN(ids[i], AddHost(std::move(hosts[i])));
  }
  return ids;
}

absl::StatusOr<Host> Topology::RemoveHost(HostId id) {
  const Host* found = FindHost(id);
  if (found == nullptr) return absl::NotFoundError(absl::StrCat(ToString(id), " is not part of the cluster"));
  Host host = *found;
  for (DeviceId device : VirtualDevicesOf(id)) Unbind(device);
  EmptySeat seat{host, {}, {}};
  for (DeviceId device : host.devices) {
    for (MemoryId memory : devices_[device.v]->memories) seat.memories.push_back(std::exchange(memories_[memory.v], nullptr));
    seat.devices.push_back(std::exchange(devices_[device.v], nullptr));
  }
  const auto order = [](const EmptySeat& s) { return std::pair(s.host.island, s.host.seat); };
  empty_seats_.insert(absl::c_upper_bound(empty_seats_, seat, [&](const auto& a, const auto& b) { return order(a) < order(b); }),
                      std::move(seat));
  hosts_[id.v] = nullptr;
  std::erase(islands_[host.island.v].hosts, id);
  ++epoch_;
  return host;
}

void Topology::Bind(DeviceId id, DeviceId physical) {
  auto device = std::make_shared<Device>(*devices_[physical.v]);
  device->id = id;
  virtual_[id] = std::move(device);
}

void Topology::Unbind(DeviceId id) { virtual_.erase(id); }

std::vector<DeviceId> Topology::VirtualDevicesOf(HostId host) const {
  std::vector<DeviceId> devices;
  for (const auto& [id, device] : virtual_) {
    if (device->host == host) devices.push_back(id);
  }
  return devices;
}

const Device* Topology::FindDevice(DeviceId id) const {
  if (!IsVirtual(id)) return At(devices_, id);
  auto it = virtual_.find(id);
  return it == virtual_.end() ? nullptr : it->second.get();
}
const Memory* Topology::FindMemory(MemoryId id) const { return At(memories_, id); }
const Host* Topology::FindHost(HostId id) const { return At(hosts_, id); }

const Device* Topology::FindFormerDevice(DeviceId id) const {
  for (const EmptySeat& seat : empty_seats_) {
    for (const auto& device : seat.devices) {
      if (device->id == id) return device.get();
    }
  }
  return nullptr;
}

const Device* Topology::FindNowOrFormer(DeviceId id) const {
  const Device* const now = FindDevice(id);
  return now != nullptr ? now : FindFormerDevice(id);
}

const Island* Topology::FindIsland(IslandId id) const { return id.v < islands_.size() ? &islands_[id.v] : nullptr; }

const Island* Topology::FindIslandByName(const std::string& name) const {
  auto it = island_ids_.find(name);
  return it == island_ids_.end() ? nullptr : &islands_[it->second.v];
}

absl::StatusOr<const Device*> Topology::GetDevice(DeviceId id) const {
  if (const Device* device = FindDevice(id)) return device;
  const bool left = id.v >= 0 && static_cast<size_t>(id.v) < devices_.size();
  return absl::NotFoundError(absl::StrCat(ToString(id), left ? " has left the cluster with its host" : " does not exist",
                                          "; the cluster now has ", Count(devices().size(), "device")));
}

absl::StatusOr<const Host*> Topology::GetHostOf(DeviceId device) const {
  PW_ASSIGN_OR_RETURN(const Device* found, GetDevice(device));
  return FindHost(found->host);
}

bool Topology::SameHost(absl::Span<const DeviceId> devices) const {
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId id) {
    const Device* device = FindDevice(id);
    const Device* first = FindDevice(devices[0]);
    return device != nullptr && first != nullptr && device->host == first->host;
  });
}

bool Topology::SameIsland(absl::Span<const DeviceId> devices) const {
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId id) {
    const Device* device = FindDevice(id);
    const Device* first = FindDevice(devices[0]);
    return device != nullptr && first != nullptr && device->island == first->island;
  });
}

std::vector<HostId> Topology::hosts() const { return Ids(hosts_); }
std::vector<DeviceId> Topology::devices() const { return Ids(devices_); }

std::string Topology::Describe(const Host& host) const {
  return absl::StrCat("host '", host.name, "' of island '", islands_[host.island.v].name, "'");
}

Snapshot Topology::TakeSnapshot() const {
  Snapshot snapshot{epoch_, {}, Values(hosts_), Values(devices_), Values(memories_)};
  std::copy_if(islands_.begin(), islands_.end(), std::back_inserter(snapshot.islands),
               [](const Island& i) { return !i.hosts.empty(); });
  return snapshot;
}

std::string Topology::Summary() const {
  const size_t islands = std::count_if(islands_.begin(), islands_.end(), [](const Island& i) { return !i.hosts.empty(); });
  std::string text =
      absl::StrCat(Count(islands, "island"), ", ", Count(hosts().size(), "host"), ", ", Count(devices().size(), "device"), "\n");
  for (const Island& island : islands_) {
    for (HostId id : island.hosts) {
      const Host& host = *hosts_[id.v];
      absl::StrAppend(&text, "  island ", island.name, "  host ", host.name, " (", ToString(id), ")  ", host.devices.size(),
                      " x ", devices_[host.devices[0].v]->description.kind, "  devices ", host.devices.front().v, "-",
                      host.devices.back().v, "\n");
    }
  }
  return text;
}

Attributes ClientAttributes(const Topology& topology, const Device& device, const Host& host) {
  Attributes shown = device.description.attributes;
  for (const char* ours : {"island", "host", "slice_index", "virtual_task_index", "colocation_id"}) {
    shown.ints.erase(ours);
    shown.strings.erase(ours);
    shown.lists.erase(ours);
  }
  const Island& island = *topology.FindIsland(device.island);
  shown.strings["island"] = island.name;
  shown.strings["host"] = host.name;
  shown.ints["slice_index"] = island.id.v;
  shown.ints["virtual_task_index"] = host.seat;
  if (device.description.kind == kCpuDeviceKind) shown.ints["colocation_id"] = device.id.v;
  return shown;
}

}  // namespace pw::resource
