#include "pathways/controller/cluster_info.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/secret.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/stablehlo_version.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Hello;

resource::DeviceDescription DescribeDevice(const Hello::Device& proto) {
  resource::DeviceDescription device;
  device.kind = proto.kind();
  device.local_hardware_id = proto.local_hardware_id();
  device.debug_string = proto.debug_string();
  device.to_string = proto.to_string();
  device.memory_limit_bytes = proto.memory_limit_bytes();
  for (const auto& memory : proto.memories()) device.memories.push_back({memory.kind(), memory.kind_id()});
  device.attributes.ints.insert(proto.int_attributes().begin(), proto.int_attributes().end());
  device.attributes.strings.insert(proto.string_attributes().begin(), proto.string_attributes().end());
  for (const auto& [name, list] : proto.coordinate_attributes()) {
    device.attributes.lists[name].assign(list.values().begin(), list.values().end());
  }
  return device;
}

// Runtimes write a device's number on its host ("CpuDevice(id=2)"); people need its id in the cluster.
std::string WithClusterId(std::string text, DeviceId id) {
  const size_t at = text.find("id=");
  if (at == std::string::npos) return text;
  const size_t digits = text.find_first_not_of("0123456789", at + 3);
  const size_t end = digits == std::string::npos ? text.size() : digits;
  return end == at + 3 ? text : text.replace(at + 3, end - at - 3, absl::StrCat(id.v));
}

DeviceInfo ShowDevice(const resource::Topology& topology, const resource::Device& device, const resource::Host& host,
                      const std::string& platform) {
  DeviceInfo info;
  info.id = device.id;
  info.local_device_id = device.id.v;  // every device is local to the one client process
  info.local_hardware_id = device.description.local_hardware_id;
  info.platform_name = platform;
  info.kind = device.description.kind;
  info.debug_string = WithClusterId(device.description.debug_string, device.id);
  info.to_string = WithClusterId(device.description.to_string, device.id);
  info.memories = device.memories;
  resource::Attributes attributes = resource::ClientAttributes(topology, device, host);
  info.int_attributes = std::move(attributes.ints);
  info.string_attributes = std::move(attributes.strings);
  info.list_attributes = std::move(attributes.lists);
  return info;
}

MemoryInfo ShowMemory(const resource::Memory& memory) {
  MemoryInfo info;
  info.id = memory.id;
  info.kind = memory.kind;
  info.kind_id = memory.kind_id;
  info.devices = {memory.device};
  info.to_string = absl::StrCat("MEMORY_SPACE_", memory.id.v);
  info.debug_string = absl::StrCat("Memory(id=", memory.id.v, ", kind=", memory.kind, ", device=", memory.device.v, ")");
  return info;
}

}  // namespace

resource::HostDescription DescribeHost(const Hello& hello) {
  resource::HostDescription host{hello.host_name(), hello.island(), hello.platform_name(), hello.platform_version(), {}};
  for (const auto& device : hello.devices()) host.devices.push_back(DescribeDevice(device));
  if (hello.former().has_place()) {
    const auto& place = hello.former().place();
    host.former.emplace();
    host.former->island = IslandId(place.island());
    host.former->seat = static_cast<int32_t>(std::min<uint32_t>(place.seat(), INT32_MAX));
    for (int32_t id : place.device_ids()) host.former->devices.push_back(DeviceId(id));
    for (int32_t id : place.memory_ids()) host.former->memories.push_back(MemoryId(id));
  }
  return host;
}

::pathways::v1::Place PlaceOf(const resource::Topology& topology, const resource::Host& host) {
  ::pathways::v1::Place place;
  place.set_island(host.island.v);
  place.set_seat(static_cast<uint32_t>(host.seat));
  for (DeviceId id : host.devices) {
    place.add_device_ids(id.v);
    for (MemoryId memory : topology.FindDevice(id)->memories) place.add_memory_ids(memory.v);
  }
  return place;
}

absl::Status CheckHello(const Hello& hello, const std::string& platform) {
  if (hello.protocol_version() != kWorkerProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the worker '", hello.host_name(), "' speaks version ",
                                                      hello.protocol_version(), " of the worker protocol, this controller ",
                                                      kWorkerProtocolVersion,
                                                      ": install the same release of pathways on all hosts"));
  }
  if (!platform.empty() && hello.platform_name() != platform) {
    return absl::FailedPreconditionError(absl::StrCat("the worker '", hello.host_name(), "' has ", hello.platform_name(),
                                                      " devices, this cluster runs on ", platform,
                                                      ": a cluster has devices of one platform"));
  }
  if (hello.last_launch() > kMostLaunches)
    return absl::InvalidArgumentError(absl::StrCat("the worker '", hello.host_name(), "' tells an impossible number of a launch: ",
                                                   hello.last_launch(), ", where ", kMostLaunches, " is the greatest"));
  // Topology::AddHost validates the description; a scratch topology leaves the real one alone.
  resource::Topology scratch;
  return scratch.AddHost(DescribeHost(hello)).status();
}

std::shared_ptr<const ClusterInfo> MakeClusterInfo(const resource::Topology& topology, const std::vector<const Hello*>& hellos) {
  auto info = std::make_shared<ClusterInfo>();
  if (!hellos.empty()) {
    info->platform_name = hellos[0]->platform_name();
    info->platform_version = hellos[0]->platform_version();
    info->xla_version = hellos[0]->xla_version();
    const Hello* oldest = *std::min_element(hellos.begin(), hellos.end(), [](const Hello* a, const Hello* b) {
      return program::VersionNumbers(a->stablehlo_version()) < program::VersionNumbers(b->stablehlo_version());
    });
    info->stablehlo_version = oldest->stablehlo_version();
  }
  const resource::Snapshot snapshot = topology.TakeSnapshot();
  for (const resource::Device& device : snapshot.devices)
    info->devices.push_back(ShowDevice(topology, device, *topology.FindHost(device.host), info->platform_name));
  for (const resource::Memory& memory : snapshot.memories) info->memories.push_back(ShowMemory(memory));
  return info;
}

void AddEmptySeats(const resource::Topology& topology, const std::string& platform, SpareDevices& spares) {
  for (const resource::EmptySeat& seat : topology.empty_seats()) {
    for (const auto& device : seat.devices) {
      spares.devices.push_back(ShowDevice(topology, *device, seat.host, platform));
      spares.devices.back().int_attributes[kEmptySeat] = 1;
    }
    for (const auto& memory : seat.memories) spares.memories.push_back(ShowMemory(*memory));
  }
}

}  // namespace pw::controller
