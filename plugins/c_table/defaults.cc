#include "plugins/c_table/defaults.h"

#include <string>

#include "plugins/c_table/error.h"

namespace pw::c_table {
namespace {

// Returns the name of an entry, which is the name of its arguments without "_Args". `function` is the name of a function template
// with these as parameter "Args".
std::string NameIn(const std::string& function) {
  static constexpr char kBefore[] = "Args = ";
  const size_t before = function.find(kBefore);
  if (before == std::string::npos) return function;
  const size_t begin = before + sizeof(kBefore) - 1;
  return function.substr(begin, function.find("_Args", begin) - begin);
}

template <typename Args>
PJRT_Error* Refuse(Args*) {
  return NewError(Refusal(NameIn(__PRETTY_FUNCTION__)));
}

template <typename... Args>
void RefuseAll(PJRT_Error* (*&... entries)(Args*)) {
  ((entries = Refuse<Args>), ...);
}

}  // namespace

void FillDefaults(PJRT_Api* api) {
  RefuseAll(api->PJRT_Plugin_Initialize, api->PJRT_Plugin_Attributes);
  RefuseAll(api->PJRT_Event_Destroy, api->PJRT_Event_IsReady, api->PJRT_Event_Error, api->PJRT_Event_Await,
            api->PJRT_Event_OnReady, api->PJRT_Event_Create, api->PJRT_Event_Set);
  RefuseAll(api->PJRT_Client_Create, api->PJRT_Client_Destroy, api->PJRT_Client_PlatformName, api->PJRT_Client_ProcessIndex,
            api->PJRT_Client_PlatformVersion, api->PJRT_Client_Devices, api->PJRT_Client_AddressableDevices,
            api->PJRT_Client_LookupDevice, api->PJRT_Client_LookupAddressableDevice, api->PJRT_Client_AddressableMemories,
            api->PJRT_Client_Compile, api->PJRT_Client_DefaultDeviceAssignment);
  RefuseAll(api->PJRT_Client_BufferFromHostBuffer, api->PJRT_Client_CreateViewOfDeviceBuffer,
            api->PJRT_Client_TopologyDescription, api->PJRT_Client_CreateBuffersForAsyncHostToDevice, api->PJRT_Client_DmaMap,
            api->PJRT_Client_DmaUnmap, api->PJRT_Client_CreateUninitializedBuffer, api->PJRT_Client_UpdateGlobalProcessInfo,
            api->PJRT_Client_CreateAliasBuffer, api->PJRT_Client_FulfillAliasBuffer, api->PJRT_Client_CreateErrorBuffer);
  RefuseAll(api->PJRT_DeviceDescription_Id, api->PJRT_DeviceDescription_ProcessIndex, api->PJRT_DeviceDescription_Attributes,
            api->PJRT_DeviceDescription_Kind, api->PJRT_DeviceDescription_DebugString, api->PJRT_DeviceDescription_ToString);
  RefuseAll(api->PJRT_Device_GetDescription, api->PJRT_Device_IsAddressable, api->PJRT_Device_LocalHardwareId,
            api->PJRT_Device_AddressableMemories, api->PJRT_Device_DefaultMemory, api->PJRT_Device_MemoryStats,
            api->PJRT_Device_PoisonExecution, api->PJRT_Device_CreateAsyncTrackingEvent);
  RefuseAll(api->PJRT_Memory_Id, api->PJRT_Memory_Kind, api->PJRT_Memory_DebugString, api->PJRT_Memory_ToString,
            api->PJRT_Memory_AddressableByDevices, api->PJRT_Memory_Kind_Id);
  RefuseAll(api->PJRT_Executable_Destroy, api->PJRT_Executable_Name, api->PJRT_Executable_NumReplicas,
            api->PJRT_Executable_NumPartitions, api->PJRT_Executable_NumOutputs, api->PJRT_Executable_SizeOfGeneratedCodeInBytes,
            api->PJRT_Executable_GetCostAnalysis, api->PJRT_Executable_OutputMemoryKinds, api->PJRT_Executable_OptimizedProgram,
            api->PJRT_Executable_Serialize, api->PJRT_Executable_DeserializeAndLoad, api->PJRT_Executable_OutputElementTypes);
  RefuseAll(api->PJRT_Executable_OutputDimensions, api->PJRT_Executable_Fingerprint, api->PJRT_Executable_GetCompiledMemoryStats,
            api->PJRT_Executable_GetCompileOptions);
  RefuseAll(api->PJRT_LoadedExecutable_Destroy, api->PJRT_LoadedExecutable_GetExecutable,
            api->PJRT_LoadedExecutable_AddressableDevices, api->PJRT_LoadedExecutable_Delete,
            api->PJRT_LoadedExecutable_IsDeleted, api->PJRT_LoadedExecutable_Execute, api->PJRT_LoadedExecutable_Fingerprint,
            api->PJRT_LoadedExecutable_GetDeviceAssignment);
  RefuseAll(api->PJRT_Buffer_Destroy, api->PJRT_Buffer_ElementType, api->PJRT_Buffer_Dimensions,
            api->PJRT_Buffer_UnpaddedDimensions, api->PJRT_Buffer_DynamicDimensionIndices, api->PJRT_Buffer_GetMemoryLayout,
            api->PJRT_Buffer_OnDeviceSizeInBytes, api->PJRT_Buffer_Device, api->PJRT_Buffer_Memory, api->PJRT_Buffer_Delete,
            api->PJRT_Buffer_IsDeleted, api->PJRT_Buffer_CopyToDevice);
  RefuseAll(api->PJRT_Buffer_ToHostBuffer, api->PJRT_Buffer_IsOnCpu, api->PJRT_Buffer_ReadyEvent, api->PJRT_Buffer_UnsafePointer,
            api->PJRT_Buffer_IncreaseExternalReferenceCount, api->PJRT_Buffer_DecreaseExternalReferenceCount,
            api->PJRT_Buffer_OpaqueDeviceMemoryDataPointer, api->PJRT_Buffer_CopyToMemory, api->PJRT_Buffer_CopyRawToHost,
            api->PJRT_Buffer_CopyRawToHostFuture, api->PJRT_Buffer_DonateWithControlDependency);
  RefuseAll(api->PJRT_CopyToDeviceStream_Destroy, api->PJRT_CopyToDeviceStream_AddChunk, api->PJRT_CopyToDeviceStream_TotalBytes,
            api->PJRT_CopyToDeviceStream_GranuleSize, api->PJRT_CopyToDeviceStream_CurrentBytes);
  RefuseAll(api->PJRT_TopologyDescription_Create, api->PJRT_TopologyDescription_Destroy,
            api->PJRT_TopologyDescription_PlatformName, api->PJRT_TopologyDescription_PlatformVersion,
            api->PJRT_TopologyDescription_GetDeviceDescriptions, api->PJRT_TopologyDescription_Serialize,
            api->PJRT_TopologyDescription_Attributes, api->PJRT_TopologyDescription_Deserialize);
  RefuseAll(api->PJRT_Compile);
  RefuseAll(api->PJRT_ExecuteContext_Create, api->PJRT_ExecuteContext_Destroy);
  RefuseAll(api->PJRT_AsyncHostToDeviceTransferManager_Destroy, api->PJRT_AsyncHostToDeviceTransferManager_TransferData,
            api->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, api->PJRT_AsyncHostToDeviceTransferManager_Device,
            api->PJRT_AsyncHostToDeviceTransferManager_BufferCount, api->PJRT_AsyncHostToDeviceTransferManager_BufferSize,
            api->PJRT_AsyncHostToDeviceTransferManager_SetBufferError, api->PJRT_AsyncHostToDeviceTransferManager_AddMetadata,
            api->PJRT_AsyncHostToDeviceTransferManager_TransferLiteral);
  RefuseAll(api->PJRT_AsyncTrackingEvent_Destroy);
}

}  // namespace pw::c_table
