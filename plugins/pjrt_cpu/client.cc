// Clients: creation and properties.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "plugins/pjrt_cpu/collectives.h"
#include "plugins/pjrt_cpu/handles.h"
#include "plugins/pjrt_cpu/options.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"
#include "xla/service/computation_placer.h"

namespace pw::pjrt_cpu {
namespace {

// The revision of our changes to compiled programs. Increase it with every such change: hosts cache compiled programs by the
// platform's version.
constexpr char kRevision[] = "; programs of revision 4";

PJRT_Error* CreateClient(PJRT_Client_Create_Args* args) {
  PW_ASSIGN_OR_RETURN(const Options options, ReadOptions(args->create_options, args->num_options));
  auto ledger = std::make_shared<MemoryLedger>(options.memory_limit_bytes);
  xla::CpuClientOptions xla_options;
  xla_options.asynchronous = options.asynchronous;
  xla_options.cpu_device_count = options.device_count;
  xla_options.max_inflight_computations_per_device = options.max_inflight;
  xla_options.process_id = options.node_id;
  xla_options.allocator = [ledger](size_t bytes, size_t alignment) { return ledger->Allocate(bytes, alignment); };
  std::shared_ptr<Network> network;
  std::unique_ptr<xla::CpuTopologyDescription> topology;
  if (options.num_nodes > 1) {
    PW_ASSIGN_OR_RETURN(network, Network::Join(options, *args));
    topology = network->devices_of_nodes().empty() ? TopologyOf(options) : TopologyOf(network->devices_of_nodes());
    xla_options.topology = topology.get();
    xla_options.cpu_device_count = topology->cpu_topology().number_of_devices();  // of all processes; XLA makes this many threads
  }
  xla_options.collectives = MakeCollectives(network);
  PW_ASSIGN_OR_RETURN(std::unique_ptr<xla::PjRtClient> client, xla::GetXlaPjrtCpuClient(std::move(xla_options)));
  std::unique_ptr<PJRT_Client> wrapped = WrapClient(std::move(client), std::move(ledger));
  wrapped->network = std::move(network);
  args->client = wrapped.release();
  return nullptr;
}

void WrapMemories(PJRT_Client* client) {
  for (xla::PjRtMemorySpace* space : client->client->memory_spaces()) {
    Memory& memory = client->owned_memories.emplace_back(client, space);
    client->memories.push_back(&memory);
    client->memory_of[space] = &memory;
  }
}

void WrapDevice(PJRT_Client* client, xla::PjRtDevice* xla_device) {
  PJRT_Device& device = client->owned_devices.emplace_back();
  device.device = xla_device;
  device.client = client;
  client->devices.push_back(&device);
  client->device_of[xla_device] = &device;
  if (!xla_device->IsAddressable()) return;
  for (xla::PjRtMemorySpace* space : xla_device->memory_spaces()) {
    Memory* memory = client->memory_of.at(space);
    device.memories.push_back(memory);
    memory->devices.push_back(&device);
  }
  if (absl::StatusOr<xla::PjRtMemorySpace*> space = xla_device->default_memory_space(); space.ok()) {
    device.default_memory = client->memory_of.at(*space);
  }
}

template <typename Id>  // the types of ids differ between versions of XLA
absl::StatusOr<xla::PjRtDevice*> LookUp(const PJRT_Client& client,
                                        absl::StatusOr<xla::PjRtDevice*> (xla::PjRtClient::*lookup)(Id) const, int id) {
  return (client.client.get()->*lookup)(Id(id));
}

PJRT_Error* LookupDevice(PJRT_Client_LookupDevice_Args* args) {
  PW_ASSIGN_OR_RETURN(xla::PjRtDevice * device, LookUp(*args->client, &xla::PjRtClient::LookupDevice, args->id));
  args->device = args->client->device_of.at(device);
  return nullptr;
}

PJRT_Error* LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args* args) {
  PW_ASSIGN_OR_RETURN(xla::PjRtDevice * device,
                      LookUp(*args->client, &xla::PjRtClient::LookupAddressableDevice, args->local_hardware_id));
  args->addressable_device = args->client->device_of.at(device);
  return nullptr;
}

PJRT_Error* DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args* args) {
  PW_ASSIGN_OR_RETURN(const xla::DeviceAssignment assignment,
                      args->client->client->GetDefaultDeviceAssignment(args->num_replicas, args->num_partitions));
  if (args->default_assignment_size < static_cast<size_t>(assignment.num_elements())) {
    return MakeError(absl::InvalidArgumentError(absl::StrCat("the array for the default device assignment holds ",
                                                             args->default_assignment_size, " numbers, but ",
                                                             assignment.num_elements(), " are needed")));
  }
  std::copy(assignment.begin(), assignment.end(), args->default_assignment);
  return nullptr;
}

}  // namespace

std::unique_ptr<PJRT_Client> WrapClient(std::unique_ptr<xla::PjRtClient> xla_client, std::shared_ptr<MemoryLedger> ledger) {
  auto client = std::make_unique<PJRT_Client>();
  client->ledger = std::move(ledger);
  client->client = std::move(xla_client);
  client->platform_version = absl::StrCat(client->client->platform_version(), kRevision);
  WrapMemories(client.get());
  for (xla::PjRtDevice* device : client->client->devices()) WrapDevice(client.get(), device);
  for (xla::PjRtDevice* device : client->client->addressable_devices()) {
    client->addressable_devices.push_back(client->device_of.at(device));
  }
  if (absl::StatusOr<const xla::PjRtTopologyDescription*> topology = client->client->GetTopologyDescription(); topology.ok()) {
    client->topology = WrapTopology(*topology, nullptr);
  }
  DescribeDevices(client.get());
  return client;
}

void FillClientEntries(PJRT_Api* api) {
  api->PJRT_Client_Create = CreateClient;
  api->PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args* args) -> PJRT_Error* {
    delete args->client;
    return nullptr;
  };
  api->PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) -> PJRT_Error* {
    const absl::string_view name = args->client->client->platform_name();
    args->platform_name = name.data();
    args->platform_name_size = name.size();
    return nullptr;
  };
  api->PJRT_Client_ProcessIndex = [](PJRT_Client_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = args->client->client->process_index();
    return nullptr;
  };
  api->PJRT_Client_PlatformVersion = [](PJRT_Client_PlatformVersion_Args* args) -> PJRT_Error* {
    args->platform_version = args->client->platform_version.data();
    args->platform_version_size = args->client->platform_version.size();
    return nullptr;
  };
  api->PJRT_Client_TopologyDescription = [](PJRT_Client_TopologyDescription_Args* args) -> PJRT_Error* {
    args->topology = args->client->topology.get();
    return args->topology != nullptr ? nullptr : MakeError(absl::UnimplementedError("XLA gave no topology for this client"));
  };
  api->PJRT_Client_Devices = [](PJRT_Client_Devices_Args* args) -> PJRT_Error* {
    args->devices = args->client->devices.data();
    args->num_devices = args->client->devices.size();
    return nullptr;
  };
  api->PJRT_Client_AddressableDevices = [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->client->addressable_devices.data();
    args->num_addressable_devices = args->client->addressable_devices.size();
    return nullptr;
  };
  api->PJRT_Client_AddressableMemories = [](PJRT_Client_AddressableMemories_Args* args) -> PJRT_Error* {
    args->addressable_memories = args->client->memories.data();
    args->num_addressable_memories = args->client->memories.size();
    return nullptr;
  };
  api->PJRT_Client_LookupDevice = LookupDevice;
  api->PJRT_Client_LookupAddressableDevice = LookupAddressableDevice;
  api->PJRT_Client_DefaultDeviceAssignment = DefaultDeviceAssignment;
  // The wire notices when a process ends; only the host may know that a process no longer answers.
  api->PJRT_Client_UpdateGlobalProcessInfo = [](PJRT_Client_UpdateGlobalProcessInfo_Args* args) -> PJRT_Error* {
    for (size_t i = 0; i < args->num_process_infos && args->client->network != nullptr; ++i) {
      const PJRT_ProcessInfo& info = args->process_infos[i];
      if (info.state != PJRT_ProcessState_kDisconnected && info.state != PJRT_ProcessState_kError) continue;
      args->client->network->Lose(info.task_id, std::string(info.error_message, info.error_message_size));
    }
    return nullptr;
  };
  // All host memory is device memory here, so mapping it for transfers needs no work.
  api->PJRT_Client_DmaMap = [](PJRT_Client_DmaMap_Args*) -> PJRT_Error* { return nullptr; };
  api->PJRT_Client_DmaUnmap = [](PJRT_Client_DmaUnmap_Args*) -> PJRT_Error* { return nullptr; };
}

}  // namespace pw::pjrt_cpu
