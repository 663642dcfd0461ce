#include "pathways/device/pjrt/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "pathways/base/status_macros.h"
#include "pathways/device/pjrt/key_value_callbacks.h"

namespace pw::device::pjrt {
namespace {

std::vector<PJRT_NamedValue> ToNamedValues(const std::vector<ClientOption>& options) {
  std::vector<PJRT_NamedValue> values;
  for (const ClientOption& option : options) {
    PW_PJRT_ARGS(value, PJRT_NamedValue);
    value.name = option.name.data();
    value.name_size = option.name.size();
    value.value_size = 1;
    if (const auto* text = std::get_if<std::string>(&option.value)) {
      value.type = PJRT_NamedValue_kString;
      value.string_value = text->data();
      value.value_size = text->size();
    } else if (const auto* number = std::get_if<int64_t>(&option.value)) {
      value.type = PJRT_NamedValue_kInt64;
      value.int64_value = *number;
    } else if (const auto* truth = std::get_if<bool>(&option.value)) {
      value.type = PJRT_NamedValue_kBool;
      value.bool_value = *truth;
    } else if (const auto* fraction = std::get_if<float>(&option.value)) {
      value.type = PJRT_NamedValue_kFloat;
      value.float_value = *fraction;
    } else {
      const auto& numbers = std::get<std::vector<int64_t>>(option.value);
      value.type = PJRT_NamedValue_kInt64List;
      value.int64_array_value = numbers.data();
      value.value_size = numbers.size();
    }
    values.push_back(value);
  }
  return values;
}

void AddAttribute(const PJRT_NamedValue& value, DeviceInfo* info) {
  std::string name(value.name, value.name_size);
  switch (value.type) {
    case PJRT_NamedValue_kString:
      info->string_attributes[name] = std::string(value.string_value, value.value_size);
      break;
    case PJRT_NamedValue_kInt64:
      info->int_attributes[name] = value.int64_value;
      break;
    case PJRT_NamedValue_kInt64List:
      info->coordinate_attributes[name].assign(value.int64_array_value, value.int64_array_value + value.value_size);
      break;
    case PJRT_NamedValue_kFloat:
      info->string_attributes[name] = absl::StrCat(value.float_value);
      break;
    case PJRT_NamedValue_kBool:
      info->int_attributes[name] = value.bool_value ? 1 : 0;
      break;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Client>> Client::Create(std::shared_ptr<const Api> api, std::vector<ClientOption> options,
                                                             std::unique_ptr<Processes> processes) {
  const bool spans = processes->nodes() > 1;
  if (spans) {
    options.push_back({"node_id", int64_t{processes->node()}});
    options.push_back({"num_nodes", int64_t{processes->nodes()}});
  }
  std::vector<PJRT_NamedValue> values = ToNamedValues(options);
  PW_PJRT_ARGS(args, PJRT_Client_Create_Args);
  args.create_options = values.data();
  args.num_options = values.size();
  if (spans) OfferKeyValues(processes->store(), &args);
  if (absl::Status status = api->Call(&PJRT_Api::PJRT_Client_Create, &args); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("the device plugin '", api->path(), "' cannot start its devices: ", status.message()));
  }
  std::shared_ptr<Client> client(new Client(std::move(api), args.client, std::move(processes)));
  PW_RETURN_IF_ERROR(client->ReadInfo());
  PW_RETURN_IF_ERROR(client->ReadDevices());
  if (spans) {
    client->info_.process_address = client->processes_->own_address();
    PW_RETURN_IF_ERROR(client->ReadAllDevices());
    client->TellStates(0, client->processes_->Gone(), absl::OkStatus());
  }
  return client;
}

Client::~Client() {
  PW_PJRT_ARGS(args, PJRT_Client_Destroy_Args);
  args.client = handle_;
  api_->Call(&PJRT_Api::PJRT_Client_Destroy, &args).IgnoreError();
}

absl::Status Client::ReadInfo() {
  PW_PJRT_ARGS(name, PJRT_Client_PlatformName_Args);
  name.client = handle_;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Client_PlatformName, &name));
  info_.platform_name.assign(name.platform_name, name.platform_name_size);
  PW_PJRT_ARGS(version, PJRT_Client_PlatformVersion_Args);
  version.client = handle_;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Client_PlatformVersion, &version));
  info_.platform_version.assign(version.platform_version, version.platform_version_size);

  PW_PJRT_ARGS(attributes, PJRT_Plugin_Attributes_Args);
  if (!api_->Call(&PJRT_Api::PJRT_Plugin_Attributes, &attributes).ok()) return absl::OkStatus();
  for (size_t i = 0; i < attributes.num_attributes; ++i) {
    const PJRT_NamedValue& value = attributes.attributes[i];
    const absl::string_view key(value.name, value.name_size);
    if (key == "stablehlo_current_version" && value.type == PJRT_NamedValue_kInt64List) {
      info_.stablehlo_version = absl::StrJoin(absl::MakeConstSpan(value.int64_array_value, value.value_size), ".");
    } else if (key == "xla_version" && value.type == PJRT_NamedValue_kInt64) {
      info_.xla_version = absl::StrCat(value.int64_value);
    }
  }
  return absl::OkStatus();
}

absl::Status Client::ReadDevices() {
  PW_PJRT_ARGS(args, PJRT_Client_AddressableDevices_Args);
  args.client = handle_;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Client_AddressableDevices, &args));
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    PJRT_Device* handle = args.addressable_devices[i];
    PW_ASSIGN_OR_RETURN(Device device, ReadDevice(handle));
    ordinals_[handle] = static_cast<int>(devices_.size());
    devices_.push_back(std::move(device));
  }
  if (devices_.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the device plugin '", api_->path(), "' finds no device on this host"));
  }
  return absl::OkStatus();
}

// The plugin numbers devices as it likes. It has told all processes' devices to all of them, so the ids of a process's devices in
// ascending order are the same everywhere. That these are also its ordinals is checked for this process here, and for every other there.
absl::Status Client::ReadAllDevices() {
  PW_PJRT_ARGS(args, PJRT_Client_Devices_Args);
  args.client = handle_;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Client_Devices, &args));
  for (size_t i = 0; i < args.num_devices; ++i) {
    PW_ASSIGN_OR_RETURN(PJRT_DeviceDescription * description, DescriptionOf(args.devices[i]));
    PW_PJRT_ARGS(process, PJRT_DeviceDescription_ProcessIndex_Args);
    process.device_description = description;
    PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_DeviceDescription_ProcessIndex, &process));
    PW_ASSIGN_OR_RETURN(const int id, ReadId(description));
    ids_[process.process_index].push_back(id);
  }
  for (auto& [process, ids] : ids_) std::sort(ids.begin(), ids.end());
  std::vector<int> own;
  for (const Device& device : devices_) own.push_back(device.info.runtime_id);
  if (own == ids_[processes_->node()]) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the device plugin '", api_->path(), "' was told that this is process ",
                                          processes_->node(), ". It gives that process the devices ",
                                          absl::StrJoin(ids_[processes_->node()], ","), " and this one ",
                                          absl::StrJoin(own, ",")));
}

absl::StatusOr<int> Client::IdOf(int process, int ordinal) const {
  const auto found = ids_.find(process);
  const int count = found == ids_.end() ? 0 : static_cast<int>(found->second.size());
  if (ordinal >= 0 && ordinal < count) return found->second[ordinal];
  if (ordinal >= 0 && count > 0 && !processes_->devices_are_known()) return found->second.front() + ordinal;
  return absl::InvalidArgumentError(
      absl::StrCat("the device plugin knows ", count, " devices of process ", process, ", and so no device ", ordinal));
}

void Client::LoseProcess(const std::string& address, const absl::Status& why) const {
  const int number = processes_->Forget(address);
  if (number < 0) return;
  const std::vector<bool> gone = processes_->Gone();
  if (gone.empty()) return TellStates(number, {true}, why);
  TellStates(0, gone, why);
}

void Client::TellStates(int first, const std::vector<bool>& gone, const absl::Status& why) const {
  std::vector<PJRT_ProcessInfo> infos;
  for (size_t i = 0; i < gone.size(); ++i) {
    PW_PJRT_ARGS(info, PJRT_ProcessInfo);
    info.task_id = first + static_cast<int>(i);
    info.incarnation_id = static_cast<uint64_t>(info.task_id) + 1;  // no other process of a world gets the number
    info.state = gone[i] ? PJRT_ProcessState_kDisconnected : PJRT_ProcessState_kConnected;
    if (gone[i]) {
      info.error_code = static_cast<int>(why.code());
      info.error_message = why.message().data();
      info.error_message_size = why.message().size();
    }
    infos.push_back(info);
  }
  if (infos.empty()) return;
  PW_PJRT_ARGS(args, PJRT_Client_UpdateGlobalProcessInfo_Args);
  args.client = handle_;
  args.process_infos = infos.data();
  args.num_process_infos = infos.size();
  api_->Call(&PJRT_Api::PJRT_Client_UpdateGlobalProcessInfo, &args).IgnoreError();
}

absl::StatusOr<PJRT_DeviceDescription*> Client::DescriptionOf(PJRT_Device* handle) const {
  PW_PJRT_ARGS(get, PJRT_Device_GetDescription_Args);
  get.device = handle;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Device_GetDescription, &get));
  return get.device_description;
}

absl::StatusOr<int> Client::ReadId(PJRT_DeviceDescription* description) const {
  PW_PJRT_ARGS(id, PJRT_DeviceDescription_Id_Args);
  id.device_description = description;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_DeviceDescription_Id, &id));
  return id.id;
}

absl::StatusOr<Device> Client::ReadDevice(PJRT_Device* handle) const {
  Device device{handle};
  DeviceInfo& info = device.info;
  PW_ASSIGN_OR_RETURN(PJRT_DeviceDescription * description, DescriptionOf(handle));
  PW_ASSIGN_OR_RETURN(info.runtime_id, ReadId(description));
  PW_PJRT_ARGS(hardware, PJRT_Device_LocalHardwareId_Args);
  hardware.device = handle;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Device_LocalHardwareId, &hardware));
  info.local_hardware_id = hardware.local_hardware_id;
  PW_PJRT_ARGS(kind, PJRT_DeviceDescription_Kind_Args);
  kind.device_description = description;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_DeviceDescription_Kind, &kind));
  info.kind.assign(kind.device_kind, kind.device_kind_size);
  PW_PJRT_ARGS(debug, PJRT_DeviceDescription_DebugString_Args);
  debug.device_description = description;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_DeviceDescription_DebugString, &debug));
  info.debug_string.assign(debug.debug_string, debug.debug_string_size);
  PW_PJRT_ARGS(text, PJRT_DeviceDescription_ToString_Args);
  text.device_description = description;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_DeviceDescription_ToString, &text));
  info.to_string.assign(text.to_string, text.to_string_size);
  PW_PJRT_ARGS(attributes, PJRT_DeviceDescription_Attributes_Args);
  attributes.device_description = description;
  if (api_->Call(&PJRT_Api::PJRT_DeviceDescription_Attributes, &attributes).ok()) {
    for (size_t i = 0; i < attributes.num_attributes; ++i) AddAttribute(attributes.attributes[i], &info);
  }
  PW_RETURN_IF_ERROR(ReadMemories(&device));
  return device;
}

absl::Status Client::ReadMemories(Device* device) const {
  PW_PJRT_ARGS(list, PJRT_Device_AddressableMemories_Args);
  list.device = device->handle;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Device_AddressableMemories, &list));
  PW_PJRT_ARGS(first, PJRT_Device_DefaultMemory_Args);
  first.device = device->handle;
  PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Device_DefaultMemory, &first));
  std::vector<PJRT_Memory*> handles(list.memories, list.memories + list.num_memories);
  std::stable_partition(handles.begin(), handles.end(), [&](PJRT_Memory* m) { return m == first.memory; });
  for (PJRT_Memory* handle : handles) {
    PW_PJRT_ARGS(kind, PJRT_Memory_Kind_Args);
    kind.memory = handle;
    PW_RETURN_IF_ERROR(api_->Call(&PJRT_Api::PJRT_Memory_Kind, &kind));
    PW_PJRT_ARGS(id, PJRT_Memory_Kind_Id_Args);
    id.memory = handle;
    if (!api_->Call(&PJRT_Api::PJRT_Memory_Kind_Id, &id).ok()) id.kind_id = static_cast<int>(device->memories.size());
    device->memories.push_back({handle, std::string(kind.kind, kind.kind_size)});
    device->info.memories.push_back({device->memories.back().kind, id.kind_id});
  }
  if (device->memories.empty()) return absl::InternalError("a device has no memory");
  return absl::OkStatus();
}

int Client::OrdinalOf(PJRT_Device* device) const {
  auto it = ordinals_.find(device);
  return it == ordinals_.end() ? -1 : it->second;
}

absl::StatusOr<const Memory*> Client::FindMemory(int device, absl::string_view kind) const {
  if (device < 0 || device >= static_cast<int>(devices_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("there is no local device ", device, "; this host has ", devices_.size()));
  }
  const std::vector<Memory>& memories = devices_[device].memories;
  if (kind.empty()) return &memories.front();
  for (const Memory& memory : memories) {
    if (memory.kind == kind) return &memory;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(devices_[device].info.to_string, " has no memory of kind '", kind, "'; it has ",
                   absl::StrJoin(memories, ", ", [](std::string* out, const Memory& m) { absl::StrAppend(out, m.kind); })));
}

}  // namespace pw::device::pjrt
