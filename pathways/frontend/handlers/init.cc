// init_request: opens the session and describes the cluster.
#include <map>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/attributes.h"
#include "pathways/frontend/session_table.h"

namespace pw::frontend {
namespace {

using xla::ifrt::proxy::InitResponse;

// "1.13.7" -> {1, 13, 7}: the form in which jax compares versions. Empty if it is not of that form.
std::vector<int64_t> VersionNumbers(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (absl::string_view part : absl::StrSplit(text, '.')) {
    int64_t number;
    if (!absl::SimpleAtoi(part, &number)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

// What jax reads as attributes of the backend object (serialize_with_sdy: all of jax.export depends on it).
Attributes ClientAttributes(const controller::ClusterInfo& info) {
  Attributes attributes;
  attributes["serialize_with_sdy"] = true;
  attributes["supports_executable_serialization"] = false;
  attributes["supports_cross_host_transfers"] = false;
  if (auto version = VersionNumbers(info.stablehlo_version); !version.empty())
    attributes["stablehlo_current_version"] = std::move(version);
  if (int64_t version; absl::SimpleAtoi(info.xla_version, &version)) attributes["xla_version"] = version;
  return attributes;
}

void FillDevice(const controller::DeviceInfo& device, InitResponse::Device& out) {
  out.set_id(device.id.v);
  out.set_local_device_id(device.local_device_id);
  out.set_local_hardware_id(device.local_hardware_id);
  out.set_platform_name(device.platform_name);
  out.set_device_kind(device.kind);
  if (!device.memories.empty()) out.set_default_memory_id(device.memories[0].v);
  for (MemoryId memory : device.memories) out.add_memory_ids(memory.v);
  out.set_debug_string(device.debug_string);
  out.set_to_string(device.to_string);
  Attributes attributes;
  for (const auto& [name, value] : device.int_attributes) attributes[name] = value;
  for (const auto& [name, value] : device.string_attributes) attributes[name] = value;
  for (const auto& [name, value] : device.list_attributes) attributes[name] = value;
  *out.mutable_attributes() = AttributesToProto(attributes);
}

void FillMemory(const controller::MemoryInfo& memory, InitResponse::Memory& out) {
  out.set_id(memory.id.v);
  out.set_memory_space_kind(memory.kind);
  out.set_kind_id(memory.kind_id);
  for (DeviceId device : memory.devices) out.add_device_ids(device.v);
  out.set_debug_string(memory.debug_string);
  out.set_to_string(memory.to_string);
}

// Which island a device is of, by number. Clients other than our own package (pathwaysutils, which tells slices apart by it) get it as
// `slice_index`. To ours all devices are one slice: with several, jax.make_mesh() refuses a mesh over all of them.
class Slices {
 public:
  explicit Slices(bool per_island) : per_island_(per_island) {}

  void Show(const controller::DeviceInfo& device, InitResponse::Device& out) {
    auto island = device.string_attributes.find("island");
    if (!per_island_ || island == device.string_attributes.end()) return;
    const int64_t number = numbers_.try_emplace(island->second, numbers_.size()).first->second;
    Attributes attribute;
    attribute["slice_index"] = number;
    out.mutable_attributes()->MergeFrom(AttributesToProto(attribute));
  }

 private:
  const bool per_island_;
  std::map<std::string, int64_t> numbers_;  // in order of devices
};

// Every device is primary and addressable: to jax this is one process that drives them all.
void FillCluster(const controller::ClusterInfo& info, Slices slices, InitResponse& out) {
  out.set_platform_name(info.platform_name);
  out.set_platform_version(info.platform_version);
  out.set_platform_id(0);
  out.set_process_index(0);
  out.set_runtime_type("pathways");
  for (const auto& device : info.devices) {
    InitResponse::Device& shown = *out.add_all_devices();
    FillDevice(device, shown);
    slices.Show(device, shown);
    out.add_primary_device_ids(device.id.v);
    out.add_addressable_device_ids(device.id.v);
  }
  for (const auto& memory : info.memories) FillMemory(memory, *out.add_memories());
  *out.mutable_client_attributes() = AttributesToProto(ClientAttributes(info));
}

// Virtual devices: addressable, but not primary, so that jax.devices() lists the machine's own alone.
void FillSpares(const controller::SpareDevices& spares, InitResponse& out) {
  for (const auto& device : spares.devices) {
    FillDevice(device, *out.add_all_devices());
    out.add_addressable_device_ids(device.id.v);
  }
  for (const auto& memory : spares.memories) FillMemory(memory, *out.add_memories());
}

Action DecodeInit(const IfrtRequest&) {
  return [](ClientSession& session, Reply reply) {
    absl::StatusOr<uint64_t> id = session.Initialize();
    if (!id.ok()) return std::move(reply).Fail(id.status());
    IfrtResponse response;
    InitResponse& init = *response.mutable_init_response();
    init.set_session_id(*id);
    const bool own_package = session.hello().initialization_data.contains(kCompanionKey);
    FillCluster(session.cluster_info(), Slices(!own_package), init);
    Attributes own;
    own["pathways_client"] = static_cast<int64_t>(session.session().id().v);
    init.mutable_client_attributes()->MergeFrom(AttributesToProto(own));
    if (own_package) FillSpares(*session.cluster().Spares(session.session().id()), init);
    std::move(reply).Send(std::move(response));
  };
}

constexpr Handler kInitHandlers[] = {{IfrtRequest::kInitRequest, "init", DecodeInit}};

}  // namespace

absl::Span<const Handler> InitHandlers() { return kInitHandlers; }

}  // namespace pw::frontend
