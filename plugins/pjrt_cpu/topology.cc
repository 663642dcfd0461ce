// Devices, memories and topologies.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "plugins/pjrt_cpu/handles.h"
#include "plugins/pjrt_cpu/options.h"
#include "plugins/pjrt_cpu/versions/xla.h"
#include "xla/pjrt/host_memory_spaces.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"
#include "xla/pjrt/proto/topology_description.pb.h"
#include "xla/pjrt/scoped_async_tracking_event.h"

struct PJRT_AsyncTrackingEvent {
  std::unique_ptr<xla::ScopedAsyncTrackingEvent> event;
};

struct PJRT_SerializedTopology {
  std::string bytes;
};

namespace pw::pjrt_cpu {
namespace {

// Sets the memories of a CPU device, the default one first.
void DescribeMemories(PJRT_DeviceDescription& description) {
  description.memories = {
      {std::string(xla::CpuDeviceMemorySpace::kKind), xla::CpuDeviceMemorySpace::kKindId},
      {std::string(xla::UnpinnedHostMemorySpace::kKind), xla::UnpinnedHostMemorySpace::kKindId},
      {std::string(xla::PinnedHostMemorySpace::kKind), xla::PinnedHostMemorySpace::kKindId},
  };
  for (const PJRT_MemoryDescription& memory : description.memories) description.memory_pointers.push_back(&memory);
}

void Describe(const xla::PjRtDeviceDescription* source, PJRT_DeviceDescription& description) {
  description.description = source;
  for (const auto& [name, value] : source->Attributes()) description.attributes.Add(name, value);
  DescribeMemories(description);
}

PJRT_Error* DeviceMemoryStats(PJRT_Device_MemoryStats_Args* args) {
  const UsageCounter& usage = args->device->usage;
  const MemoryLedger& ledger = *args->device->client->ledger;
  args->bytes_in_use = usage.in_use();
  args->peak_bytes_in_use = usage.peak();
  args->peak_bytes_in_use_is_set = true;
  args->num_allocs = usage.allocations();
  args->num_allocs_is_set = true;
  args->largest_alloc_size = usage.largest();
  args->largest_alloc_size_is_set = true;
  args->bytes_limit = ledger.limit() > 0 ? ledger.limit() : MachineMemoryBytes();
  args->bytes_limit_is_set = true;
  args->bytes_reserved_is_set = false;
  args->peak_bytes_reserved_is_set = false;
  args->bytes_reservable_limit_is_set = false;
  args->largest_free_block_bytes_is_set = false;
  args->pool_bytes = ledger.usage().in_use();  // of all the client's devices, including scratch memory
  args->pool_bytes_is_set = true;
  args->peak_pool_bytes = ledger.usage().peak();
  args->peak_pool_bytes_is_set = true;
  return nullptr;
}

PJRT_Error* PoisonExecution(PJRT_Device_PoisonExecution_Args* args) {
  if (Network* network = args->device->client->network.get(); network != nullptr && (args->launch_id & kSpanningLaunch) != 0) {
    network->wire()->Abort(args->launch_id, MakeStatus(args->error_code, args->error_message, args->error_message_size));
    args->poisoned = true;
    return nullptr;
  }
  PW_ASSIGN_OR_RETURN(args->poisoned,
                      args->device->device->PoisonExecution(
                          args->launch_id, MakeStatus(args->error_code, args->error_message, args->error_message_size)));
  return nullptr;
}

PJRT_Error* CreateTopology(PJRT_TopologyDescription_Create_Args* args) {
  PW_ASSIGN_OR_RETURN(const Options options, ReadOptions(args->create_options, args->num_options));
  std::unique_ptr<xla::CpuTopologyDescription> topology = TopologyOf(options);
  const xla::PjRtTopologyDescription* view = topology.get();
  args->topology = WrapTopology(view, std::move(topology)).release();
  return nullptr;
}

PJRT_Error* SerializeTopology(PJRT_TopologyDescription_Serialize_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::PjRtTopologyDescriptionProto proto, args->topology->topology->ToProto());
  auto* out = new PJRT_SerializedTopology{proto.SerializeAsString()};
  args->serialized_bytes = out->bytes.data();
  args->serialized_bytes_size = out->bytes.size();
  args->serialized_topology = out;
  args->serialized_topology_deleter = [](PJRT_SerializedTopology* topology) { delete topology; };
  return nullptr;
}

PJRT_Error* DeserializeTopology(PJRT_TopologyDescription_Deserialize_Args* args) {
  xla::PjRtTopologyDescriptionProto proto;
  if (!proto.ParseFromString(absl::string_view(args->serialized_topology, args->serialized_topology_size))) {
    return MakeError(absl::InvalidArgumentError("the bytes are not a topology that this library serialized"));
  }
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::CpuTopologyDescription> topology, xla::CpuTopologyDescription::FromProto(proto));
  const xla::PjRtTopologyDescription* view = topology.get();
  args->topology = WrapTopology(view, std::move(topology)).release();
  return nullptr;
}

PJRT_Error* CreateTrackingEvent(PJRT_Device_CreateAsyncTrackingEvent_Args* args) {
  args->event = new PJRT_AsyncTrackingEvent{
      args->device->device->CreateAsyncTrackingEvent(absl::string_view(args->description, args->description_size))};
  return nullptr;
}

void FillDescriptionEntries(PJRT_Api* api) {
  api->PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = args->device_description->description->id();
    return nullptr;
  };
  api->PJRT_DeviceDescription_ProcessIndex = [](PJRT_DeviceDescription_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = args->device_description->description->process_index();
    return nullptr;
  };
  api->PJRT_DeviceDescription_Attributes = [](PJRT_DeviceDescription_Attributes_Args* args) -> PJRT_Error* {
    args->attributes = args->device_description->attributes.data();
    args->num_attributes = args->device_description->attributes.size();
    return nullptr;
  };
  api->PJRT_DeviceDescription_Kind = [](PJRT_DeviceDescription_Kind_Args* args) -> PJRT_Error* {
    SetText(args->device_description->description->device_kind(), &args->device_kind, &args->device_kind_size);
    return nullptr;
  };
  api->PJRT_DeviceDescription_DebugString = [](PJRT_DeviceDescription_DebugString_Args* args) -> PJRT_Error* {
    SetText(args->device_description->description->DebugString(), &args->debug_string, &args->debug_string_size);
    return nullptr;
  };
  api->PJRT_DeviceDescription_ToString = [](PJRT_DeviceDescription_ToString_Args* args) -> PJRT_Error* {
    SetText(args->device_description->description->ToString(), &args->to_string, &args->to_string_size);
    return nullptr;
  };
}

void FillDeviceEntries(PJRT_Api* api) {
  api->PJRT_Device_GetDescription = [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description = &args->device->description;
    return nullptr;
  };
  api->PJRT_Device_IsAddressable = [](PJRT_Device_IsAddressable_Args* args) -> PJRT_Error* {
    args->is_addressable = args->device->device->IsAddressable();
    return nullptr;
  };
  api->PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) -> PJRT_Error* {
    args->local_hardware_id = args->device->device->local_hardware_id().value();
    return nullptr;
  };
  api->PJRT_Device_AddressableMemories = [](PJRT_Device_AddressableMemories_Args* args) -> PJRT_Error* {
    args->memories = args->device->memories.data();
    args->num_memories = args->device->memories.size();
    return nullptr;
  };
  api->PJRT_Device_DefaultMemory = [](PJRT_Device_DefaultMemory_Args* args) -> PJRT_Error* {
    args->memory = args->device->default_memory;
    return args->memory != nullptr ? nullptr
                                   : MakeError(absl::InvalidArgumentError(
                                         "the device belongs to another process; its memory cannot be used from here"));
  };
  api->PJRT_Device_MemoryStats = DeviceMemoryStats;
  api->PJRT_Device_PoisonExecution = PoisonExecution;
  api->PJRT_Device_CreateAsyncTrackingEvent = CreateTrackingEvent;
  api->PJRT_AsyncTrackingEvent_Destroy = [](PJRT_AsyncTrackingEvent_Destroy_Args* args) -> PJRT_Error* {
    delete args->event;
    return nullptr;
  };
}

void FillMemoryEntries(PJRT_Api* api) {
  api->PJRT_Memory_Id = [](PJRT_Memory_Id_Args* args) -> PJRT_Error* {
    args->id = Own(args->memory)->memory->id();
    return nullptr;
  };
  api->PJRT_Memory_Kind = [](PJRT_Memory_Kind_Args* args) -> PJRT_Error* {
    SetText(Own(args->memory)->memory->kind(), &args->kind, &args->kind_size);
    return nullptr;
  };
  api->PJRT_Memory_Kind_Id = [](PJRT_Memory_Kind_Id_Args* args) -> PJRT_Error* {
    args->kind_id = Own(args->memory)->memory->kind_id();
    return nullptr;
  };
  api->PJRT_Memory_DebugString = [](PJRT_Memory_DebugString_Args* args) -> PJRT_Error* {
    SetText(Own(args->memory)->memory->DebugString(), &args->debug_string, &args->debug_string_size);
    return nullptr;
  };
  api->PJRT_Memory_ToString = [](PJRT_Memory_ToString_Args* args) -> PJRT_Error* {
    SetText(Own(args->memory)->memory->ToString(), &args->to_string, &args->to_string_size);
    return nullptr;
  };
  api->PJRT_Memory_AddressableByDevices = [](PJRT_Memory_AddressableByDevices_Args* args) -> PJRT_Error* {
    args->devices = Own(args->memory)->devices.data();
    args->num_devices = Own(args->memory)->devices.size();
    return nullptr;
  };
}

}  // namespace

std::unique_ptr<xla::CpuTopologyDescription> TopologyOf(const Options& options) {
  const int own = options.device_count.value_or(1);
  std::vector<int> devices_of_nodes(options.num_nodes, options.peer_device_count.value_or(own));
  if (options.node_id < options.num_nodes) devices_of_nodes[options.node_id] = own;
  return TopologyOf(devices_of_nodes);
}

std::unique_ptr<xla::CpuTopologyDescription> TopologyOf(const std::vector<int>& devices_of_nodes) {
  std::vector<xla::CpuTopology::CpuDevice> devices;
  for (int node = 0; node < static_cast<int>(devices_of_nodes.size()); ++node) {
    for (int i = 0; i < devices_of_nodes[node]; ++i) devices.push_back({node, i});
  }
  return versions::MakeTopology<xla::CpuTopologyDescription>(std::move(devices));
}

void DescribeDevices(PJRT_Client* client) {
  for (PJRT_Device& device : client->owned_devices) Describe(&device.device->description(), device.description);
}

std::unique_ptr<PJRT_TopologyDescription> WrapTopology(const xla::PjRtTopologyDescription* topology,
                                                       std::unique_ptr<xla::PjRtTopologyDescription> owned) {
  auto result = std::make_unique<PJRT_TopologyDescription>();
  result->topology = topology;
  result->owned = std::move(owned);
  result->xla_descriptions = topology->DeviceDescriptions();
  for (const auto& source : result->xla_descriptions) {
    Describe(source.get(), result->descriptions.emplace_back());
    result->description_pointers.push_back(&result->descriptions.back());
  }
  for (const auto& [name, value] : topology->Attributes()) result->attributes.Add(name, value);
  return result;
}

PJRT_Extension_Base* MemoryDescriptionsExtension() {
  static PJRT_MemoryDescriptions_Extension extension = [] {
    PJRT_MemoryDescriptions_Extension result{};
    result.base = {PJRT_MemoryDescriptions_Extension_STRUCT_SIZE, PJRT_Extension_Type_MemoryDescriptions, nullptr};
    result.PJRT_DeviceDescription_MemoryDescriptions = [](PJRT_DeviceDescription_MemoryDescriptions_Args* args) -> PJRT_Error* {
      args->memory_descriptions = args->device_description->memory_pointers.data();
      args->num_memory_descriptions = args->device_description->memory_pointers.size();
      args->default_memory_index = args->device_description->default_memory;
      return nullptr;
    };
    result.PJRT_MemoryDescription_Kind = [](PJRT_MemoryDescription_Kind_Args* args) -> PJRT_Error* {
      SetText(args->memory_description->kind, &args->kind, &args->kind_size);
      args->kind_id = args->memory_description->kind_id;
      return nullptr;
    };
    return result;
  }();
  return &extension.base;
}

void FillTopologyEntries(PJRT_Api* api) {
  FillDescriptionEntries(api);
  FillDeviceEntries(api);
  FillMemoryEntries(api);
  api->PJRT_TopologyDescription_Create = CreateTopology;
  api->PJRT_TopologyDescription_Destroy = [](PJRT_TopologyDescription_Destroy_Args* args) -> PJRT_Error* {
    delete args->topology;
    return nullptr;
  };
  api->PJRT_TopologyDescription_PlatformName = [](PJRT_TopologyDescription_PlatformName_Args* args) -> PJRT_Error* {
    SetText(args->topology->topology->platform_name(), &args->platform_name, &args->platform_name_size);
    return nullptr;
  };
  api->PJRT_TopologyDescription_PlatformVersion = [](PJRT_TopologyDescription_PlatformVersion_Args* args) -> PJRT_Error* {
    SetText(args->topology->topology->platform_version(), &args->platform_version, &args->platform_version_size);
    return nullptr;
  };
  api->PJRT_TopologyDescription_GetDeviceDescriptions =
      [](PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) -> PJRT_Error* {
    args->descriptions = args->topology->description_pointers.data();
    args->num_descriptions = args->topology->description_pointers.size();
    return nullptr;
  };
  api->PJRT_TopologyDescription_Attributes = [](PJRT_TopologyDescription_Attributes_Args* args) -> PJRT_Error* {
    args->attributes = args->topology->attributes.data();
    args->num_attributes = args->topology->attributes.size();
    return nullptr;
  };
  api->PJRT_TopologyDescription_Serialize = SerializeTopology;
  api->PJRT_TopologyDescription_Deserialize = DeserializeTopology;
}

}  // namespace pw::pjrt_cpu
