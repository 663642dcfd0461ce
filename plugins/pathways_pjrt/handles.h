// The structs behind the opaque handles of the PJRT C API, over a session with a cluster (pathways/client).
//
// A session knows arrays that span devices; the host knows one buffer for each device. A buffer is therefore a place in a SharedArray
// (shared_array.h): the buffers of one result name the same array, and an execution passes arrays on whole.
//
// Invariants:
//  1. A handle is created by exactly one entry of the table and freed by its Destroy entry.
//  2. Devices, memories and their descriptions live as long as their client, and all other handles of a client are destroyed before it.
//  3. Names, dimensions and layouts that an entry returns by pointer live in the handle, are filled once, and never move.
//  4. No entry throws. Only Client_Create, Client_Compile, DeserializeAndLoad, Client_Destroy, Event_Await, GetCostAnalysis and
//     OptimizedProgram wait for the cluster.
//  5. An error of the cluster is the value of the buffers and events that depend on it. Entries that start work report only
//     errors of the call itself.
//  6. If the cluster is in this process, entries that post to it run its work before they return, unless another thread does
//     (HelpedThread). So a small computation has ended when its Execute returns, and no thread was woken. Destroying buffers
//     posts nothing.
// Threads: all entries may be called from any thread. The mutable parts of a handle are guarded by its own mutex or are atomic.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/threads/helped_thread.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/client/client.h"
#include "plugins/c_table/named_values.h"
#include "plugins/pathways_pjrt/ports.h"
#include "plugins/pathways_pjrt/python_calls.h"
#include "plugins/pathways_pjrt/shared_array.h"
#include "plugins/pathways_pjrt/table.h"

namespace pw::pathways_pjrt {

struct Memory final : PJRT_Memory {
  Memory() : PJRT_Memory{} {}
  const session::MemoryInfo* info = nullptr;
  std::vector<PJRT_Device*> devices;
};
inline Memory* Own(PJRT_Memory* memory) { return static_cast<Memory*>(memory); }

// Element types of the C API and ours. INVALID: the C API of this version has no such type.
PJRT_Buffer_Type ToBufferType(buffers::DType type);
absl::StatusOr<buffers::DType> FromBufferType(PJRT_Buffer_Type type);

// Returns a new event that becomes ready with the future.
PJRT_Event* NewEvent(Future<Unit> future);

}  // namespace pw::pathways_pjrt

struct PJRT_DeviceDescription {
  const pw::session::DeviceInfo* info = nullptr;
  pw::c_table::NamedValues attributes;
};

struct PJRT_Device {
  PJRT_Client* client = nullptr;
  PJRT_DeviceDescription description;
  std::vector<PJRT_Memory*> memories;  // the first is the default

  pw::DeviceId id() const { return description.info->id; }
};

struct PJRT_TopologyDescription {
  PJRT_Client* client = nullptr;
  std::vector<PJRT_DeviceDescription*> descriptions;
};

struct PJRT_Client {
  // Copies large contents to the host's memory. Outlives the session, which posts to it.
  pw::ThreadPool copier{"pw-pjrt-copy", 1};
  std::shared_ptr<const void> own_cluster;  // in this process; null: the cluster is elsewhere
  pw::HelpedThread* helped = nullptr;       // the own cluster's thread, which entries help
  std::unique_ptr<pw::client::Client> session;
  std::unique_ptr<pw::pathways_pjrt::PythonCalls> python_calls;  // null: programs cannot call this process
  std::deque<PJRT_Device> owned_devices;
  std::deque<pw::pathways_pjrt::Memory> owned_memories;
  std::vector<PJRT_Device*> devices;
  std::vector<PJRT_Memory*> memories;
  absl::flat_hash_map<pw::DeviceId, PJRT_Device*> device_of;
  PJRT_TopologyDescription topology;
  std::mutex mu;
  absl::flat_hash_map<std::string, std::weak_ptr<pw::pathways_pjrt::ManyNodes>> many_nodes;  // by their keys; guarded by mu

  const pw::session::ClusterInfo& cluster() const { return session->cluster(); }
};

struct PJRT_Event {
  pw::Future<pw::Unit> future;
  std::mutex mu;
  std::unique_ptr<pw::Promise<pw::Unit>> promise;  // guarded by mu; only of events made by PJRT_Event_Create, until they are set
};

struct PJRT_Layouts_MemoryLayout {
  std::string text;  // in XLA's form, such as {1,0}
};

// The type, dimensions and order in memory that buffers have in common. Immutable.
struct Shape {
  pw::buffers::DType dtype = pw::buffers::DType::kInvalid;
  pw::buffers::Dims dims;
  std::vector<int64_t> minor_to_major;
};

// Serialized xla.OpSharding of a program's values; empty if one of them is not known.
struct ShardingLists {
  explicit ShardingLists(const std::vector<pw::session::ValueInfo>& values);
  std::vector<const char*> texts;
  std::vector<size_t> sizes;
};

// A port and its program (ports.h).
struct Port {
  pw::pathways_pjrt::PortOptions options;
  std::shared_ptr<pw::pathways_pjrt::ManyNodes> program;
};

// ProgramSource: the input of a compilation. Empty for ports.
struct ProgramSource {
  pw::Bytes module;     // StableHLO
  std::string options;  // the host's serialized xla.CompileOptionsProto
};

// A compiled program, or a port of one. Immutable; shared by its executable handles.
struct Program {
  Program(pw::client::Client* session, pw::client::Executable executable, int replicas, int partitions, ProgramSource source,
          std::optional<Port> port);
  ~Program() {
    if (!port.has_value()) session->Drop(info);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pw::client::Client* const session;
  const pw::client::Executable info;
  const int num_replicas;
  const int num_partitions;
  const ProgramSource source;
  const std::optional<Port> port;                           // nullopt: an ordinary program
  std::vector<pw::buffers::ArraySpec> parameter_specs;      // whole arrays, as the program takes them
  std::vector<std::shared_ptr<const Shape>> output_shapes;  // as one device sees them
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;  // of all outputs, one after another
  std::vector<size_t> output_ranks;
  std::vector<std::string> output_kind_texts;
  std::vector<const char*> output_kinds;
  std::vector<size_t> output_kind_sizes;
  std::deque<PJRT_Layouts_MemoryLayout> output_layout_texts;
  std::vector<PJRT_Layouts_MemoryLayout*> output_layouts;
  const ShardingLists parameter_shardings;
  const ShardingLists output_shardings;
};

struct PJRT_Executable {
  std::shared_ptr<const Program> program;
  std::mutex mu;
  std::unique_ptr<pw::c_table::NamedValues> costs;  // guarded by mu
  std::optional<std::string> module;                // the optimized program, once asked for; guarded by mu
};

struct PJRT_LoadedExecutable {
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Device*> devices;
  std::mutex mu;
  std::shared_ptr<const Program> program;  // guarded by mu; null once deleted

  std::shared_ptr<const Program> get() {
    std::lock_guard<std::mutex> lock(mu);
    return program;
  }
};

struct PJRT_Buffer {
  PJRT_Client* client = nullptr;
  PJRT_Device* device = nullptr;
  PJRT_Memory* memory = nullptr;
  std::shared_ptr<const Shape> shape;
  std::mutex mu;
  pw::pathways_pjrt::Place place;  // guarded by mu; none once deleted or donated

  pw::pathways_pjrt::Place get() {
    std::lock_guard<std::mutex> lock(mu);
    return place;
  }
};

namespace pw::pathways_pjrt {

// Returns the device's memory of this kind; the default one for an empty or unknown kind; null if there is none.
PJRT_Memory* MemoryOf(const PJRT_Device* device, absl::string_view kind);

PJRT_Buffer* NewBuffer(PJRT_Device* device, PJRT_Memory* memory, std::shared_ptr<const Shape> shape, Place place);

}  // namespace pw::pathways_pjrt
