// Clients: a session with a cluster, and its properties.
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/process/notice.h"
#include "pathways/base/status_macros.h"
#include "plugins/pathways_pjrt/attributes.h"
#include "plugins/pathways_pjrt/handles.h"
#include "plugins/pathways_pjrt/own_cluster.h"
#include "plugins/pathways_pjrt/package_calls.h"

namespace pw::pathways_pjrt {
namespace {

// The same text as that of the other door (bin/agent_main.cc).
constexpr char kRemedy[] =
    "Arrays that lived there are lost. Start the program again, or in the same process: jax.clear_caches(); "
    "jax.extend.backend.clear_backends(), which connects anew once a controller runs there.";

// Options of PJRT_Client_Create.
struct Options {
  client::Client::Options session;  // `cluster`, the controller's address; `description`, of this program; `patience`, in seconds
  std::string local;                // flags of a cluster in this process (own_cluster.h), instead of `cluster`
  std::string callback_socket;      // where the package answers programs' calls (python_calls.h); empty: nowhere
  std::string callback_token;
  std::string weight, priority;  // its share of the devices' time (gang/share.h); empty: the default
  std::string on_hang;           // "end": the session ends when one of its computations hangs; empty or "report": it does not
  bool virtual_devices = false;  // lists the devices of virtual slices, too; the package hides them from jax.devices()
};

std::string* TextNamed(absl::string_view name, Options& options) {
  if (name == "cluster") return &options.session.controller;
  if (name == "local") return &options.local;
  if (name == "description") return &options.session.description;
  if (name == "token_file") return &options.session.credentials.token_file;
  if (name == "tls") return &options.session.credentials.tls;
  if (name == "callback_socket") return &options.callback_socket;
  if (name == "callback_token") return &options.callback_token;
  if (name == "weight") return &options.weight;
  if (name == "priority") return &options.priority;
  if (name == "on_hang") return &options.on_hang;
  return nullptr;
}

absl::Status ReadOption(const PJRT_NamedValue& value, Options& options) {
  const absl::string_view name(value.name, value.name_size);
  std::string* text = TextNamed(name, options);
  if (text != nullptr && value.type == PJRT_NamedValue_kString) {
    text->assign(value.string_value, value.value_size);
  } else if (name == "patience" && value.type == PJRT_NamedValue_kInt64) {
    options.session.timeout = absl::Seconds(value.int64_value);
  } else if (name == "virtual_devices" && value.type == PJRT_NamedValue_kInt64) {
    options.virtual_devices = value.int64_value != 0;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no option '", name, "' of this type; there are the texts cluster, local, description, token_file, tls, ",
        "callback_socket, callback_token, weight, priority and on_hang, and the numbers patience and virtual_devices"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Options> ReadOptions(const PJRT_NamedValue* values, size_t count) {
  Options options;
  options.session.description = "a program";
  options.session.remedy = kRemedy;
  options.session.say = [](const std::string& line) { PrintNotice(STDERR_FILENO, line); };
  for (size_t i = 0; i < count; ++i) PW_RETURN_IF_ERROR(ReadOption(values[i], options));
  PW_ASSIGN_OR_RETURN(options.session.share, gang::ParseShareChange(options.weight, options.priority));
  if (!options.on_hang.empty() && options.on_hang != "end" && options.on_hang != "report")
    return absl::InvalidArgumentError("the option on_hang must be end or report");
  options.session.ends_on_hang = options.on_hang == "end";
  if (options.session.controller.empty() == options.local.empty())
    return absl::InvalidArgumentError(
        "the option `cluster` must name the controller's address for clients (HOST:PORT, unix:PATH), or the option "
        "`local` must have the flags of a cluster in this process");
  return options;
}

void DescribeDevice(PJRT_Client* client, const session::DeviceInfo& info) {
  PJRT_Device& device = client->owned_devices.emplace_back();
  device.client = client;
  device.description.info = &info;
  for (const auto& [name, value] : info.int_attributes) device.description.attributes.Add(name, value);
  for (const auto& [name, value] : info.string_attributes) device.description.attributes.Add(name, value);
  for (const auto& [name, value] : info.list_attributes) device.description.attributes.Add(name, value);
  client->devices.push_back(&device);
  client->device_of[info.id] = &device;
  client->topology.descriptions.push_back(&device.description);
}

void DescribeMemories(PJRT_Client* client, const Options& options) {
  absl::flat_hash_map<MemoryId, Memory*> memory_of;
  const auto describe = [&](const session::MemoryInfo& info) {
    Memory& memory = client->owned_memories.emplace_back();
    memory.info = &info;
    client->memories.push_back(&memory);
    memory_of[info.id] = &memory;
  };
  for (const session::MemoryInfo& info : client->cluster().memories) describe(info);
  if (options.virtual_devices) {
    for (const session::MemoryInfo& info : client->session->spares().memories) describe(info);
  }
  for (PJRT_Device& device : client->owned_devices) {
    for (MemoryId id : device.description.info->memories) {
      auto found = memory_of.find(id);
      if (found == memory_of.end()) continue;
      device.memories.push_back(found->second);
      found->second->devices.push_back(&device);
    }
  }
}

absl::Status OpenSession(const Options& options, PJRT_Client* client) {
  if (options.local.empty()) {
    PW_ASSIGN_OR_RETURN(client->session, client::Client::Connect(options.session));
    return absl::OkStatus();
  }
  PW_ASSIGN_OR_RETURN(OwnSession own, OpenOwnSession(options.local, options.session.description, options.session.share));
  client->own_cluster = std::move(own.cluster);
  client->helped = own.thread;
  client->session = std::move(own.client);
  return absl::OkStatus();
}

PJRT_Error* CreateClient(PJRT_Client_Create_Args* args) {
  PW_ENTRY_ASSIGN_OR_RETURN(const Options options, ReadOptions(args->create_options, args->num_options));
  auto client = std::make_unique<PJRT_Client>();
  PW_ENTRY_RETURN_IF_ERROR(OpenSession(options, client.get()));
  if (!options.callback_socket.empty()) {
    PW_ENTRY_ASSIGN_OR_RETURN(client->python_calls,
                              PythonCalls::Start(client->session.get(), options.callback_socket, options.callback_token));
  }
  client->topology.client = client.get();
  for (const session::DeviceInfo& info : client->cluster().devices) DescribeDevice(client.get(), info);
  if (options.virtual_devices) {  // after the cluster's own, so that default assignments do not contain them
    for (const session::DeviceInfo& info : client->session->spares().devices) DescribeDevice(client.get(), info);
  }
  DescribeMemories(client.get(), options);
  SetAttributes(client->cluster(), client->session->session_id(), AddClient(client.get()));
  args->client = client.release();
  return nullptr;
}

PJRT_Error* LookupDevice(PJRT_Client_LookupDevice_Args* args) {
  auto found = args->client->device_of.find(DeviceId(args->id));
  if (found == args->client->device_of.end())
    return NewError(absl::InvalidArgumentError(absl::StrCat("the cluster has no device ", args->id)));
  args->device = found->second;
  return nullptr;
}

PJRT_Error* LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args* args) {
  return NewError(absl::NotFoundError(absl::StrCat("no device has the local hardware id ", args->local_hardware_id,
                                                   ": a cluster's devices have none; use their ids")));
}

// Assigns the first devices, replica-major.
PJRT_Error* DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args* args) {
  const auto& devices = args->client->devices;
  const size_t own = args->client->cluster().devices.size();
  const int64_t wanted = int64_t{args->num_replicas} * args->num_partitions;
  if (args->num_replicas < 1 || args->num_partitions < 1 || wanted > static_cast<int64_t>(own) ||
      static_cast<int64_t>(args->default_assignment_size) < wanted) {
    return NewError(absl::InvalidArgumentError(absl::StrCat("no default device assignment of ", args->num_replicas,
                                                            " replicas x ", args->num_partitions, " partitions on ", own,
                                                            " devices, in room for ", args->default_assignment_size)));
  }
  for (int64_t i = 0; i < wanted; ++i) args->default_assignment[i] = devices[i]->id().v;
  return nullptr;
}

void FillLists(PJRT_Api* api) {
  api->PJRT_Client_Devices = [](PJRT_Client_Devices_Args* args) -> PJRT_Error* {
    args->devices = args->client->devices.data();
    args->num_devices = args->client->devices.size();
    return nullptr;
  };
  // One process drives all devices.
  api->PJRT_Client_AddressableDevices = [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
    args->addressable_devices = args->client->devices.data();
    args->num_addressable_devices = args->client->devices.size();
    return nullptr;
  };
  api->PJRT_Client_AddressableMemories = [](PJRT_Client_AddressableMemories_Args* args) -> PJRT_Error* {
    args->addressable_memories = args->client->memories.data();
    args->num_addressable_memories = args->client->memories.size();
    return nullptr;
  };
}

}  // namespace

void FillClientEntries(PJRT_Api* api) {
  FillLists(api);
  api->PJRT_Client_Create = CreateClient;
  api->PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args* args) -> PJRT_Error* {
    RemoveClient(args->client);
    delete args->client;
    return nullptr;
  };
  api->PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) -> PJRT_Error* {
    SetText(args->client->cluster().platform_name, &args->platform_name, &args->platform_name_size);
    return nullptr;
  };
  api->PJRT_Client_ProcessIndex = [](PJRT_Client_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = 0;
    return nullptr;
  };
  api->PJRT_Client_PlatformVersion = [](PJRT_Client_PlatformVersion_Args* args) -> PJRT_Error* {
    SetText(args->client->cluster().platform_version, &args->platform_version, &args->platform_version_size);
    return nullptr;
  };
  api->PJRT_Client_TopologyDescription = [](PJRT_Client_TopologyDescription_Args* args) -> PJRT_Error* {
    args->topology = &args->client->topology;
    return nullptr;
  };
  api->PJRT_Client_LookupDevice = LookupDevice;
  api->PJRT_Client_LookupAddressableDevice = LookupAddressableDevice;
  api->PJRT_Client_DefaultDeviceAssignment = DefaultDeviceAssignment;
}

}  // namespace pw::pathways_pjrt
