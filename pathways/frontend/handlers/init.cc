// init_request: opens the session and describes the cluster.
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/attributes.h"
#include "pathways/frontend/session_table.h"
#include "pathways/program/stablehlo_version.h"

namespace pw::frontend {
namespace {

using xla::ifrt::proxy::InitResponse;

// Attributes of the backend object in jax (all of jax.export depends on serialize_with_sdy).
Attributes ClientAttributes(const controller::ClusterInfo& info) {
  Attributes attributes;
  attributes["serialize_with_sdy"] = true;
  attributes["supports_executable_serialization"] = false;
  attributes["supports_cross_host_transfers"] = false;
  if (auto version = program::VersionNumbers(info.stablehlo_version); !version.empty())
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

// Every device is primary and addressable: jax sees one process that drives all of them.
void FillCluster(const controller::ClusterInfo& info, InitResponse& out) {
  out.set_platform_name(info.platform_name);
  out.set_platform_version(info.platform_version);
  out.set_platform_id(0);
  out.set_process_index(0);
  out.set_runtime_type("pathways");
  for (const auto& device : info.devices) {
    FillDevice(device, *out.add_all_devices());
    out.add_primary_device_ids(device.id.v);
    out.add_addressable_device_ids(device.id.v);
  }
  for (const auto& memory : info.memories) FillMemory(memory, *out.add_memories());
  *out.mutable_client_attributes() = AttributesToProto(ClientAttributes(info));
}

// Virtual devices and those of empty seats are addressable, but not primary, so that jax.devices() lists only present devices.
void FillSpares(const controller::SpareDevices& spares, InitResponse& out) {
  for (const auto& device : spares.devices) {
    FillDevice(device, *out.add_all_devices());
    out.add_addressable_device_ids(device.id.v);
  }
  for (const auto& memory : spares.memories) FillMemory(memory, *out.add_memories());
}

IfrtResponse Welcome(ClientSession& session, uint64_t id) {
  IfrtResponse response;
  InitResponse& init = *response.mutable_init_response();
  init.set_session_id(id);
  FillCluster(session.cluster_info(), init);
  Attributes own;
  own["pathways_client"] = static_cast<int64_t>(session.session().id().v);
  init.mutable_client_attributes()->MergeFrom(AttributesToProto(own));
  const bool own_package = session.hello().initialization_data.contains(kCompanionKey);
  if (own_package) FillSpares(*session.cluster().Spares(session.session().id()), init);
  return response;
}

Action DecodeInit(const IfrtRequest&) {
  return [](ClientSession& session, Reply reply) {
    session.Initialize([&session, reply = std::move(reply)](absl::StatusOr<uint64_t> id) mutable {
      if (!id.ok()) return std::move(reply).Fail(id.status());
      std::move(reply).Send(Welcome(session, *id));
    });
  };
}

constexpr Handler kInitHandlers[] = {{IfrtRequest::kInitRequest, "init", DecodeInit}};

}  // namespace

absl::Span<const Handler> InitHandlers() { return kInitHandlers; }

}  // namespace pw::frontend
