// The structs behind the opaque handles of the PJRT C API.
//
// Every PJRT_X* that leaves this library points at one of the structs below, each a thin owner of the XLA object that does the work.
// Invariants:
//  1. A handle is created by exactly one entry of the table and freed by its Destroy entry; XLA objects are never shared with the host.
//  2. Devices, memories and their descriptions live as long as their client; no other handle points into a client.
//  3. Names, dimensions and layouts that an entry returns by pointer live in the handle, are filled once, and never move.
//  4. No entry throws. Entries do not block, except Await, compile, deserialize, and those that return a buffer's address.
// Threads: all entries may be called from any thread. The mutable parts of a handle are guarded by its own mutex or are atomic.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "plugins/c_table/named_values.h"
#include "plugins/pjrt_cpu/fibers.h"
#include "plugins/pjrt_cpu/memory_ledger.h"
#include "plugins/pjrt_cpu/net/network.h"
#include "plugins/pjrt_cpu/options.h"
#include "plugins/pjrt_cpu/status.h"
#include "xla/future.h"
#include "xla/layout.h"
#include "xla/pjrt/c/pjrt_c_api_layouts_extension.h"
#include "xla/pjrt/c/pjrt_c_api_memory_descriptions_extension.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_compiler.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"
#include "xla/shape.h"
#include "xla/xla_data.pb.h"

namespace pw::pjrt_cpu {

using c_table::NamedValues;  // its values are xla::PjRtValueType

// A layout in the C API's form, with the arrays to which it points.
struct LayoutData {
  explicit LayoutData(const xla::Layout& layout);
  LayoutData(const LayoutData&) = delete;
  PJRT_Buffer_MemoryLayout view;
  std::vector<int64_t> minor_to_major;
  std::vector<int64_t> tile_dims;
  std::vector<size_t> tile_dim_sizes;
};

PJRT_Buffer_Type ToBufferType(xla::PrimitiveType type);
absl::StatusOr<xla::PrimitiveType> FromBufferType(PJRT_Buffer_Type type);

// Converts the layout that a host requests. Accepts tiled layouts, and the strides of a permuted dense array.
absl::StatusOr<xla::Layout> FromMemoryLayout(const PJRT_Buffer_MemoryLayout& layout, xla::PrimitiveType type,
                                             absl::Span<const int64_t> dims);

// Makes a shape from the fields that several argument structs share; a null layout means dense, row-major.
absl::StatusOr<xla::Shape> MakeShape(PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims,
                                     const PJRT_Buffer_MemoryLayout* layout);

// Takes ownership of `buffer` and counts its bytes on its device until it is deleted, donated or destroyed.
PJRT_Buffer* WrapBuffer(PJRT_Client* client, std::unique_ptr<xla::PjRtBuffer> buffer, int64_t bytes = -1);

PJRT_Event* WrapFuture(xla::Future<> future);

std::unique_ptr<PJRT_TopologyDescription> WrapTopology(const xla::PjRtTopologyDescription* topology,
                                                       std::unique_ptr<xla::PjRtTopologyDescription> owned);

// Returns the topology with the devices of all nodes: as the options say, or as many for each node as given.
std::unique_ptr<xla::CpuTopologyDescription> TopologyOf(const Options& options);
std::unique_ptr<xla::CpuTopologyDescription> TopologyOf(const std::vector<int>& devices_of_nodes);

// Fills the descriptions of the devices of a client.
void DescribeDevices(PJRT_Client* client);

std::unique_ptr<PJRT_Client> WrapClient(std::unique_ptr<xla::PjRtClient> client, std::shared_ptr<MemoryLedger> ledger);

// Takes ownership, and computes the executable's properties once.
absl::StatusOr<PJRT_LoadedExecutable*> WrapLoaded(PJRT_Client* client, std::unique_ptr<xla::PjRtLoadedExecutable> executable);

struct Memory final : PJRT_Memory {
  Memory(PJRT_Client* of, xla::PjRtMemorySpace* xla) : PJRT_Memory{}, memory(xla), client(of) {}
  xla::PjRtMemorySpace* const memory;
  PJRT_Client* const client;
  std::vector<PJRT_Device*> devices;
};
inline Memory* Own(PJRT_Memory* memory) { return static_cast<Memory*>(memory); }

}  // namespace pw::pjrt_cpu

struct PJRT_MemoryDescription {
  std::string kind;
  int kind_id = 0;
};

struct PJRT_DeviceDescription {
  const xla::PjRtDeviceDescription* description = nullptr;
  pw::pjrt_cpu::NamedValues attributes;
  std::vector<PJRT_MemoryDescription> memories;
  std::vector<const PJRT_MemoryDescription*> memory_pointers;
  size_t default_memory = 0;
};

struct PJRT_Device {
  xla::PjRtDevice* device = nullptr;
  PJRT_Client* client = nullptr;
  PJRT_DeviceDescription description;
  std::vector<PJRT_Memory*> memories;
  PJRT_Memory* default_memory = nullptr;
  pw::pjrt_cpu::UsageCounter usage;  // bytes of the live buffers on this device
};

struct PJRT_TopologyDescription {
  const xla::PjRtTopologyDescription* topology = nullptr;
  std::unique_ptr<xla::PjRtTopologyDescription> owned;
  std::vector<std::unique_ptr<const xla::PjRtDeviceDescription>> xla_descriptions;
  std::deque<PJRT_DeviceDescription> descriptions;
  std::vector<PJRT_DeviceDescription*> description_pointers;
  pw::pjrt_cpu::NamedValues attributes;
};

struct PJRT_Client {
  std::shared_ptr<pw::pjrt_cpu::MemoryLedger> ledger;  // declared first: outlives every buffer of the client
  std::shared_ptr<pw::pjrt_cpu::Network> network;      // null: all devices belong to this process
  std::unique_ptr<xla::PjRtClient> client;
  std::deque<PJRT_Device> owned_devices;
  std::deque<pw::pjrt_cpu::Memory> owned_memories;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_Device*> addressable_devices;
  std::vector<PJRT_Memory*> memories;
  absl::flat_hash_map<const xla::PjRtDevice*, PJRT_Device*> device_of;
  absl::flat_hash_map<const xla::PjRtMemorySpace*, pw::pjrt_cpu::Memory*> memory_of;
  std::unique_ptr<PJRT_TopologyDescription> topology;
  std::string platform_version;
  absl::Mutex launch_mu;  // held while a launch is passed to its devices, one after another
  pw::pjrt_cpu::Fibers fibers ABSL_GUARDED_BY(launch_mu);
};

struct PJRT_Event {
  xla::Future<> future;
  absl::Mutex mu;
  xla::Promise<> promise ABSL_GUARDED_BY(mu);  // only for events made by PJRT_Event_Create, until they are set
};

struct PJRT_ExecuteContext {
  std::unique_ptr<xla::ExecuteContext> context;
};

struct PJRT_Layouts_MemoryLayout {
  xla::Layout layout;
};

// The properties of a compiled program; immutable once made, shared by the program's executable handles.
struct ProgramFacts {
  std::string name;
  std::string fingerprint;
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  std::vector<const char*> output_kinds;
  std::vector<size_t> output_kind_sizes;
  std::vector<int64_t> output_bytes;
  std::vector<PJRT_Layouts_MemoryLayout> output_layouts;
  std::vector<PJRT_Layouts_MemoryLayout*> output_layout_pointers;
  std::vector<size_t> results_elsewhere;  // results in another memory than the device's default
  std::vector<int> donatable_inputs;      // parameters whose memory the compiled program may reuse
};

struct PJRT_Executable {
  std::shared_ptr<xla::PjRtLoadedExecutable> loaded;  // null when compiled ahead of time
  std::shared_ptr<xla::PjRtExecutable> executable;    // never null
  std::shared_ptr<const ProgramFacts> facts;
  absl::Mutex mu;
  std::unique_ptr<pw::pjrt_cpu::NamedValues> costs ABSL_GUARDED_BY(mu);
  std::optional<std::string> optimized_program ABSL_GUARDED_BY(mu);
};

struct PJRT_LoadedExecutable {
  PJRT_Client* client = nullptr;
  std::shared_ptr<const ProgramFacts> facts;
  std::vector<PJRT_Device*> addressable_devices;
  bool portable = false;    // one replica, one partition, and no device named at compile time
  bool run_inline = false;  // too small to be worth another thread; waits for no other device
  bool spans = false;       // some of its devices belong to other processes
  bool take_turns = false;  // as small, and waits only for its own devices, which run in turns on the caller's thread
  absl::Mutex mu;
  std::shared_ptr<xla::PjRtLoadedExecutable> executable ABSL_GUARDED_BY(mu);  // null once deleted

  std::shared_ptr<xla::PjRtLoadedExecutable> get() {
    absl::MutexLock lock(&mu);
    return executable;
  }
};

struct PJRT_Buffer {
  PJRT_Client* client = nullptr;
  PJRT_Device* device = nullptr;
  std::unique_ptr<xla::PjRtBuffer> buffer;
  std::atomic<int64_t> counted_bytes{0};
  std::atomic<bool> filled{false};  // contents are known to exist; false: ask XLA
  absl::Mutex mu;
  std::unique_ptr<pw::pjrt_cpu::LayoutData> layout ABSL_GUARDED_BY(mu);
  std::optional<std::vector<int64_t>> unpadded_dims ABSL_GUARDED_BY(mu);
  std::optional<std::vector<size_t>> dynamic_dims ABSL_GUARDED_BY(mu);
  std::vector<std::unique_ptr<xla::PjRtBuffer::ExternalReference>> external_references ABSL_GUARDED_BY(mu);

  // Stops counting the bytes. Called whenever the storage is released or donated; may be called again.
  void Uncount() { device->usage.Subtract(counted_bytes.exchange(0, std::memory_order_relaxed)); }
};
