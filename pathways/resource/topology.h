// Topology: which islands, hosts, devices and memories the cluster has at this moment (paper 4.1).
//
// An island is a set of hosts whose devices run one SPMD program together over a fast interconnect; it is known by its name.
// Hosts join and leave at run time and bring their devices and memories with them. Pure data: a copy is a consistent view that
// any thread may read; the original belongs to the controller's strand. Copies share the descriptions.
//
// Invariants:
//   TO-1  ids are dense in the order given, and never given twice: a host that comes back is a new host with new devices
//   TO-2  an island keeps its id for the life of the topology, also while it has no host
//   TO-3  the numbers of the first cluster depend on the hosts' descriptions alone, not on the order in which they connected
//   TO-4  a device belongs to one host, a memory to one device, a host to one island, in both directions of lookup
//   TO-5  a call that fails changes nothing
//   TO-6  a virtual device is found like any other, and is where its physical one is; lists of what the cluster has do not show it
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"

namespace pw::resource {

struct Attributes {
  std::map<std::string, int64_t> ints;
  std::map<std::string, std::string> strings;
  std::map<std::string, std::vector<int64_t>> lists;  // "coords" among them

  friend bool operator==(const Attributes&, const Attributes&) = default;
};

struct MemoryDescription {
  std::string kind;  // "device", "pinned_host", ...; once a device
  int32_t kind_id = 0;
};

struct DeviceDescription {
  std::string kind;
  int32_t local_hardware_id = -1;
  std::string debug_string;
  std::string to_string;
  std::vector<MemoryDescription> memories;  // the first is the default
  int64_t memory_limit_bytes = 0;           // 0: not limited
  Attributes attributes;                    // as the device runtime gives them
};

// What a host says of itself when it joins.
struct HostDescription {
  std::string name;  // for people; need not be unique
  std::string island;
  std::string platform_name;
  std::string platform_version;
  std::vector<DeviceDescription> devices;
};

// The kind by which jax finds CPU devices.
inline constexpr char kCpuDeviceKind[] = "cpu";

// Virtual devices (of slices) have ids from here on: the controller gives them out, and binds each to a physical device.
inline constexpr DeviceId kFirstVirtualDevice{1 << 20};
inline bool IsVirtual(DeviceId id) { return id >= kFirstVirtualDevice; }

struct Device {
  DeviceId id;
  DeviceId physical;  // itself, unless it is virtual
  HostId host;
  IslandId island;
  int32_t local_ordinal = 0;       // position in the host's description
  std::vector<MemoryId> memories;  // the first is the default
  DeviceDescription description;
};

struct Memory {
  MemoryId id;
  DeviceId device;
  std::string kind;
  int32_t kind_id = 0;
};

struct Host {
  HostId id;
  IslandId island;
  std::string name;
  std::string platform_name;
  std::string platform_version;
  std::vector<DeviceId> devices;  // by local ordinal
};

struct Island {
  IslandId id;
  std::string name;
  std::vector<HostId> hosts;  // ascending
};

// Everything present, for `status`: plain values, in ascending order of id.
struct Snapshot {
  uint64_t epoch = 0;
  std::vector<Island> islands;  // those that have hosts
  std::vector<Host> hosts;
  std::vector<Device> devices;
  std::vector<Memory> memories;
};

class Topology {
 public:
  // INVALID_ARGUMENT for a host without a name, island, platform or device, or a device that names a memory kind twice or none.
  absl::StatusOr<HostId> AddHost(HostDescription description);

  // The first cluster: numbers islands by name, then hosts by name ("host2" before "host10"), equal names in the order given.
  // Returns the hosts' ids in the order of `hosts`. FAILED_PRECONDITION if a host has joined before.
  absl::StatusOr<std::vector<HostId>> FormCluster(std::vector<HostDescription> hosts);

  // `id`, a virtual one, is on `physical` from now on, whatever it was before. REQUIRES: `physical` is there, and not virtual.
  void Bind(DeviceId id, DeviceId physical);
  void Unbind(DeviceId id);
  // Ascending; also of a host that is about to go.
  std::vector<DeviceId> VirtualDevicesOf(HostId host) const;

  // The host, its devices and memories are gone, and the virtual devices on them unbound. NOT_FOUND if it is not there. Returns what it was.
  absl::StatusOr<Host> RemoveHost(HostId host);

  // Null if it is not there, or not any more. Valid until the next change.
  const Device* FindDevice(DeviceId id) const;
  const Memory* FindMemory(MemoryId id) const;
  const Host* FindHost(HostId id) const;
  const Island* FindIsland(IslandId id) const;  // also one without hosts
  const Island* FindIslandByName(const std::string& name) const;
  // NOT_FOUND, with text for people, where the Find functions say null.
  absl::StatusOr<const Device*> GetDevice(DeviceId id) const;
  absl::StatusOr<const Host*> GetHostOf(DeviceId device) const;

  // True if all devices are there and live on one host, or one island. An empty list does.
  bool SameHost(absl::Span<const DeviceId> devices) const;
  bool SameIsland(absl::Span<const DeviceId> devices) const;

  // Ascending.
  std::vector<HostId> hosts() const;
  std::vector<DeviceId> devices() const;
  // "host 'b0' of island 'b'": how errors name a host.
  std::string Describe(const Host& host) const;

  uint64_t epoch() const { return epoch_; }  // grows with every change
  Snapshot TakeSnapshot() const;
  // A line for the whole and one for each host, for people.
  std::string Summary() const;

 private:
  Island& IslandNamed(const std::string& name);
  void AddDevice(Host& host, DeviceDescription description);

  // Indexed by id; null where a host has left.
  std::vector<std::shared_ptr<const Host>> hosts_;
  std::vector<std::shared_ptr<const Device>> devices_;
  std::vector<std::shared_ptr<const Memory>> memories_;
  std::vector<Island> islands_;
  std::map<std::string, IslandId> island_ids_;
  std::map<DeviceId, std::shared_ptr<const Device>> virtual_;
  uint64_t epoch_ = 0;
};

// What clients are shown of a device: the runtime's own attributes (coords and the like), and those that describe its place in the
// cluster, which only the cluster can know:
//   island, host         names
//   slice_index          the island's number: jax, pathwaysutils and Orbax tell slices apart by it
//   virtual_task_index   the host's number within its island: (slice_index, virtual_task_index) is Orbax's name of a host
//   colocation_id        of CPU devices, the device's id: each is its own CPU partner for jax's colocated Python
// REQUIRES: the device is there.
Attributes ClientAttributes(const Topology& topology, const Device& device);

}  // namespace pw::resource
