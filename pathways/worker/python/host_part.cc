#include "pathways/worker/python/host_part.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/host_function.h"

namespace pw::worker {
namespace {

struct LocalDevice {
  int ordinal;
  DeviceId physical;
};
using LocalDevices = std::map<DeviceId, LocalDevice>;  // those of this host, as the client knows them

absl::StatusOr<LocalArray> LocalPart(const buffers::ArraySpec& spec, const LocalDevices& here) {
  LocalArray array;
  array.dtype = spec.dtype;
  array.memory_kind = spec.sharding.memory_kind();
  const std::vector<DeviceId>& devices = spec.sharding.devices();
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    const auto found = here.find(devices[i]);
    if (found == here.end()) continue;
    LocalShard shard{i, found->second.physical, found->second.ordinal, {}, 0};
    PW_ASSIGN_OR_RETURN(shard.dims, spec.sharding.ShardDims(spec.dims, i));
    if (spec.dtype != buffers::DType::kString) {
      PW_ASSIGN_OR_RETURN(shard.bytes, buffers::DenseBytes(spec.dtype, shard.dims));
    }
    array.shards.push_back(std::move(shard));
  }
  if (array.shards.empty()) return absl::InvalidArgumentError("an array of a Python function has no shard on this host");
  return array;
}

void WriteDevices(const char* key, const std::vector<LocalArray>& arrays, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const LocalArray& array : arrays) {
    json->BeginArray();
    for (const LocalShard& shard : array.shards) json->Int(shard.device.v);
    json->EndArray();
  }
  json->EndArray();
}

// The text of an object without its braces.
std::string Fields(std::string object) { return object.substr(1, object.size() - 2); }

}  // namespace

absl::StatusOr<HostPart> ReadHostPart(const pathways::v1::Compile& command, const Bytes& payload, HostId self, int devices) {
  PW_ASSIGN_OR_RETURN(session::HostFunction function, session::ParseHostFunction(payload));
  const int count = static_cast<int>(function.devices.size());
  if (command.hosts_size() != count || command.local_devices_size() != count)
    return absl::InvalidArgumentError(
        absl::StrCat("a Python function on ", count, " devices does not say where each of them is"));
  LocalDevices here;
  for (int p = 0; p < count; ++p) {
    if (HostId(command.hosts(p)) != self) continue;
    const int local = command.local_devices(p);
    if (local < 0 || local >= devices)
      return absl::InvalidArgumentError(absl::StrCat("there is no local device ", local, "; this host has ", devices));
    here[function.devices[p]] = {local, function.physical.empty() ? function.devices[p] : function.physical[p]};
  }
  if (here.empty()) return absl::InvalidArgumentError("none of a Python function's devices is on this host");
  HostPart part;
  part.name = std::move(function.name);
  part.text = std::move(function.text);
  for (size_t p = 0; p < function.physical.size(); ++p) {
    if (function.physical[p] != function.devices[p]) part.bound.emplace_back(function.devices[p], function.physical[p]);
  }
  for (const buffers::ArraySpec& spec : function.inputs) {
    PW_ASSIGN_OR_RETURN(LocalArray array, LocalPart(spec, here));
    part.inputs.push_back(std::move(array));
  }
  for (const buffers::ArraySpec& spec : function.outputs) {
    PW_ASSIGN_OR_RETURN(LocalArray array, LocalPart(spec, here));
    part.outputs.push_back(std::move(array));
  }
  return part;
}

std::string LoadHeader(uint64_t number, const HostPart& part) {
  JsonWriter json;
  json.BeginObject().Key("load").Int(static_cast<int64_t>(number)).Key("name").String(part.name);
  WriteDevices("inputs", part.inputs, &json);
  WriteDevices("outputs", part.outputs, &json);
  if (!part.bound.empty()) {
    json.Key("bound").BeginArray();
    for (const auto& [device, physical] : part.bound) json.BeginArray().Int(device.v).Int(physical.v).EndArray();
    json.EndArray();
  }
  std::string text = json.EndObject().Take();
  text.pop_back();
  return text;
}

std::string Greeting(const pathways::v1::FunctionHosts& hosts, const std::string& host_name) {
  JsonWriter json;
  json.BeginObject().Key("host").String(host_name).Key("self").Int(hosts.self()).Key("hosts").BeginArray();
  for (const auto& host : hosts.hosts()) {
    json.BeginArray();
    for (int32_t device : host.devices()) json.Int(device);
    json.EndArray();
  }
  return Fields(json.EndArray().EndObject().Take());
}

}  // namespace pw::worker
