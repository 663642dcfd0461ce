// Devices, memories and the topology, as the cluster describes them.
#include "plugins/pathways_pjrt/handles.h"

namespace pw::pathways_pjrt {
namespace {

void FillDescriptions(PJRT_Api* api) {
  api->PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = args->device_description->info->id.v;
    return nullptr;
  };
  api->PJRT_DeviceDescription_ProcessIndex = [](PJRT_DeviceDescription_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = 0;
    return nullptr;
  };
  api->PJRT_DeviceDescription_Attributes = [](PJRT_DeviceDescription_Attributes_Args* args) -> PJRT_Error* {
    args->attributes = args->device_description->attributes.data();
    args->num_attributes = args->device_description->attributes.size();
    return nullptr;
  };
  api->PJRT_DeviceDescription_Kind = [](PJRT_DeviceDescription_Kind_Args* args) -> PJRT_Error* {
    SetText(args->device_description->info->kind, &args->device_kind, &args->device_kind_size);
    return nullptr;
  };
  api->PJRT_DeviceDescription_DebugString = [](PJRT_DeviceDescription_DebugString_Args* args) -> PJRT_Error* {
    SetText(args->device_description->info->debug_string, &args->debug_string, &args->debug_string_size);
    return nullptr;
  };
  api->PJRT_DeviceDescription_ToString = [](PJRT_DeviceDescription_ToString_Args* args) -> PJRT_Error* {
    SetText(args->device_description->info->to_string, &args->to_string, &args->to_string_size);
    return nullptr;
  };
}

void FillDevices(PJRT_Api* api) {
  api->PJRT_Device_GetDescription = [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description = &args->device->description;
    return nullptr;
  };
  api->PJRT_Device_IsAddressable = [](PJRT_Device_IsAddressable_Args* args) -> PJRT_Error* {
    args->is_addressable = true;
    return nullptr;
  };
  api->PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) -> PJRT_Error* {
    args->local_hardware_id = -1;  // none: devices of several hosts share their numbers; the other door also has None
    return nullptr;
  };
  api->PJRT_Device_AddressableMemories = [](PJRT_Device_AddressableMemories_Args* args) -> PJRT_Error* {
    args->memories = args->device->memories.data();
    args->num_memories = args->device->memories.size();
    return nullptr;
  };
  api->PJRT_Device_DefaultMemory = [](PJRT_Device_DefaultMemory_Args* args) -> PJRT_Error* {
    if (args->device->memories.empty()) return NewError(absl::NotFoundError("the cluster names no memory of this device"));
    args->memory = args->device->memories.front();
    return nullptr;
  };
}

void FillMemories(PJRT_Api* api) {
  api->PJRT_Memory_Id = [](PJRT_Memory_Id_Args* args) -> PJRT_Error* {
    args->id = Own(args->memory)->info->id.v;
    return nullptr;
  };
  api->PJRT_Memory_Kind = [](PJRT_Memory_Kind_Args* args) -> PJRT_Error* {
    SetText(Own(args->memory)->info->kind, &args->kind, &args->kind_size);
    return nullptr;
  };
  api->PJRT_Memory_Kind_Id = [](PJRT_Memory_Kind_Id_Args* args) -> PJRT_Error* {
    args->kind_id = Own(args->memory)->info->kind_id;
    return nullptr;
  };
  api->PJRT_Memory_DebugString = [](PJRT_Memory_DebugString_Args* args) -> PJRT_Error* {
    SetText(Own(args->memory)->info->debug_string, &args->debug_string, &args->debug_string_size);
    return nullptr;
  };
  api->PJRT_Memory_ToString = [](PJRT_Memory_ToString_Args* args) -> PJRT_Error* {
    SetText(Own(args->memory)->info->to_string, &args->to_string, &args->to_string_size);
    return nullptr;
  };
  api->PJRT_Memory_AddressableByDevices = [](PJRT_Memory_AddressableByDevices_Args* args) -> PJRT_Error* {
    args->devices = Own(args->memory)->devices.data();
    args->num_devices = Own(args->memory)->devices.size();
    return nullptr;
  };
}

}  // namespace

void FillDeviceEntries(PJRT_Api* api) {
  FillDescriptions(api);
  FillDevices(api);
  FillMemories(api);
}

void FillTopologyEntries(PJRT_Api* api) {
  // The only topologies are those of clients, which own them.
  api->PJRT_TopologyDescription_Destroy = [](PJRT_TopologyDescription_Destroy_Args*) -> PJRT_Error* { return nullptr; };
  api->PJRT_TopologyDescription_PlatformName = [](PJRT_TopologyDescription_PlatformName_Args* args) -> PJRT_Error* {
    SetText(args->topology->client->cluster().platform_name, &args->platform_name, &args->platform_name_size);
    return nullptr;
  };
  api->PJRT_TopologyDescription_PlatformVersion = [](PJRT_TopologyDescription_PlatformVersion_Args* args) -> PJRT_Error* {
    SetText(args->topology->client->cluster().platform_version, &args->platform_version, &args->platform_version_size);
    return nullptr;
  };
  api->PJRT_TopologyDescription_GetDeviceDescriptions =
      [](PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) -> PJRT_Error* {
    args->descriptions = args->topology->descriptions.data();
    args->num_descriptions = args->topology->descriptions.size();
    return nullptr;
  };
  api->PJRT_TopologyDescription_Attributes = [](PJRT_TopologyDescription_Attributes_Args* args) -> PJRT_Error* {
    args->attributes = nullptr;
    args->num_attributes = 0;
    return nullptr;
  };
}

}  // namespace pw::pathways_pjrt
