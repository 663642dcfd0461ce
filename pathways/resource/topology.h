// Topology: the islands, hosts, devices and memories that the cluster has at this moment (paper 4.1).
//
// An island is a set of hosts whose devices run one SPMD program together over a fast interconnect; its name identifies it.
// Hosts join and leave at run time and bring their devices and memories. Pure data: a copy is a consistent view that any thread may
// read; the original belongs to the controller's strand. Copies share the descriptions.
//
// Invariants:
//   TO-1  ids are dense, in the order of AddHost, but for former places (TO-8). The id of a host is never used again
//   TO-2  an island keeps its id for the life of the topology, even while it has no host
//   TO-3  the ids of the first cluster depend only on the hosts' descriptions, not on the order in which they connected
//   TO-4  a device belongs to one host, a memory to one device, a host to one island; lookups agree in both directions
//   TO-5  a call that fails changes nothing
//   TO-6  a virtual device is found like any other and is at the place of its physical device; lists of devices omit it
//   TO-7  the id of a device is a seat: its island, its host's seat there, and its ordinal. A host that leaves empties its seat.
//         A host that joins the island with the same devices (kinds, coords and memories, in order) takes an empty seat, and with
//         it the ids of its devices and memories. It takes the seat whose last host had its name, else the lowest
//   TO-8  a host with a place of an earlier topology of this cluster gets it, with all its ids, unless something of it is taken.
//         The ids in between stay free for the hosts that had them
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
  std::string kind;  // "device", "pinned_host", ...; unique within a device
  int32_t kind_id = 0;

  friend bool operator==(const MemoryDescription&, const MemoryDescription&) = default;
};

struct DeviceDescription {
  std::string kind;
  int32_t local_hardware_id = -1;
  std::string debug_string;
  std::string to_string;
  std::vector<MemoryDescription> memories;  // the first is the default
  int64_t memory_limit_bytes = 0;           // 0: not limited
  Attributes attributes;                    // from the device runtime
};

// The place that a host had in an earlier topology of the same cluster, under a controller that has ended.
struct FormerPlace {
  IslandId island;
  int32_t seat = 0;
  std::vector<DeviceId> devices;   // by local ordinal
  std::vector<MemoryId> memories;  // those of the first device, then those of the second, ...
};
// Most ids of a kind in a former place, so that a wrong one costs no more than some memory.
inline constexpr int32_t kMostFormerIds = 1 << 20;

// The description that a host sends when it joins.
struct HostDescription {
  std::string name;  // for people; need not be unique
  std::string island;
  std::string platform_name;
  std::string platform_version;
  std::vector<DeviceDescription> devices;
  std::optional<FormerPlace> former = std::nullopt;
};

// The kind of CPU devices, by which jax finds them.
inline constexpr char kCpuDeviceKind[] = "cpu";

// Virtual devices (of slices) have ids from here on. The controller assigns the ids and binds each to a physical device.
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
  int32_t seat = 0;  // within the island
  std::string name;
  std::string platform_name;
  std::string platform_version;
  std::vector<DeviceId> devices;  // by local ordinal
};

struct Island {
  IslandId id;
  std::string name;
  std::vector<HostId> hosts;  // ascending
  int32_t seats = 0;          // taken and empty ones
};

// The whole cluster for `status`: plain values, in ascending order of id.
struct Snapshot {
  uint64_t epoch = 0;
  std::vector<Island> islands;  // islands that have hosts
  std::vector<Host> hosts;
  std::vector<Device> devices;
  std::vector<Memory> memories;
};

// An empty seat: the host that left it, and its devices.
struct EmptySeat {
  Host host;
  std::vector<std::shared_ptr<const Device>> devices;
  std::vector<std::shared_ptr<const Memory>> memories;
};

class Topology {
 public:
  // Adds a host; it takes its former place (TO-8), an empty seat (TO-7), or a new one. INVALID_ARGUMENT for a host without a name, island, platform or
  // device, or a device that names no memory kind or one twice.
  absl::StatusOr<HostId> AddHost(HostDescription description);

  // Adds the hosts of the first cluster: first those with former places, then the others. Numbers islands by name, then hosts by name ("host2"
  // before "host10"), equal names in the order of `hosts`. Returns the ids in the order of `hosts`. FAILED_PRECONDITION if a host has joined
  // before.
  absl::StatusOr<std::vector<HostId>> FormCluster(std::vector<HostDescription> hosts);

  // Binds the virtual device `id` to `physical`, replacing an earlier binding. REQUIRES: `physical` exists and is not virtual.
  void Bind(DeviceId id, DeviceId physical);
  void Unbind(DeviceId id);
  // Returns the virtual devices on `host`, ascending.
  std::vector<DeviceId> VirtualDevicesOf(HostId host) const;

  // Removes a host with its devices and memories, which leaves its seat empty, and unbinds the virtual devices on them. Returns the host.
  // NOT_FOUND if it is not there.
  absl::StatusOr<Host> RemoveHost(HostId host);

  // Return null if there is no such object now. Pointers are valid until the next change.
  const Device* FindDevice(DeviceId id) const;
  const Memory* FindMemory(MemoryId id) const;
  const Host* FindHost(HostId id) const;
  const Island* FindIsland(IslandId id) const;  // also one without hosts
  const Island* FindIslandByName(const std::string& name) const;
  // Return NOT_FOUND with a message for users instead of null.
  absl::StatusOr<const Device*> GetDevice(DeviceId id) const;
  absl::StatusOr<const Host*> GetHostOf(DeviceId device) const;

  // Return true if all devices exist and are on one host, or in one island. True for an empty list.
  bool SameHost(absl::Span<const DeviceId> devices) const;
  bool SameIsland(absl::Span<const DeviceId> devices) const;

  // Return the ids in ascending order, without virtual devices.
  std::vector<HostId> hosts() const;
  std::vector<DeviceId> devices() const;
  // Returns the name of a host for errors, such as "host 'b0' of island 'b'".
  std::string Describe(const Host& host) const;

  // Returns the device that was there before its seat became empty. Null if there was none, or if one is there.
  const Device* FindFormerDevice(DeviceId id) const;
  // Returns the device that is there, or that was there. Null if there was none.
  const Device* FindNowOrFormer(DeviceId id) const;

  uint64_t epoch() const { return epoch_; }  // grows whenever a host joins or leaves
  Snapshot TakeSnapshot() const;
  // Returns a line for the cluster and one for each host, for users.
  std::string Summary() const;

  const std::vector<EmptySeat>& empty_seats() const { return empty_seats_; }  // by island, then by seat

 private:
  Island& IslandNamed(const std::string& name);
  // Returns whether the host can have its former place: the place has an id for each device and memory, and all are free.
  bool IsFree(const FormerPlace& place, const HostDescription& host) const;
  bool IsSeatTaken(IslandId island, int32_t seat) const;
  // Makes room for the ids of a former place, and returns the host's devices with these ids as if they had left its seat.
  EmptySeat Reserve(const FormerPlace& place, const HostDescription& host);
  void AddDevice(Host& host, DeviceDescription description, const Device* former);
  std::optional<EmptySeat> TakeSeat(IslandId island, const HostDescription& description);

  // Indexed by id; null where a host has left, or had its former place.
  std::vector<std::shared_ptr<const Host>> hosts_;
  std::vector<std::shared_ptr<const Device>> devices_;
  std::vector<std::shared_ptr<const Memory>> memories_;
  std::vector<Island> islands_;  // without a name: that of a former place that no host has claimed
  std::map<std::string, IslandId> island_ids_;
  std::vector<EmptySeat> empty_seats_;
  std::map<DeviceId, std::shared_ptr<const Device>> virtual_;
  uint64_t epoch_ = 0;
};

// Returns the attributes of a device that clients see. Some are the runtime's own, such as `coords`. The others describe the
// device's place in the cluster:
//   - island, host: names
//   - slice_index: the island's number, by which jax, pathwaysutils and Orbax distinguish slices
//   - virtual_task_index: the host's seat in its island; Orbax identifies a host by (slice_index, virtual_task_index)
//   - colocation_id: for CPU devices, the device's id; each is its own CPU partner for jax's colocated Python
//
// `host`: of the device, perhaps the last one of an empty seat.
Attributes ClientAttributes(const Topology& topology, const Device& device, const Host& host);

}  // namespace pw::resource
