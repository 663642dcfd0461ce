#include "pathways/controller/status_report.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "pathways/base/json_writer.h"

namespace pw::controller {
namespace {

void WriteIslands(const StatusReport& report, JsonWriter& json) {
  json.Key("islands").BeginArray();
  for (const resource::Island& island : report.topology->islands) {
    json.BeginObject().Key("id").Int(island.id.v).Key("name").String(island.name).Key("hosts").BeginArray();
    for (HostId host : island.hosts) json.Int(host.v);
    json.EndArray().EndObject();
  }
  json.EndArray();
}

void WriteHealth(const HostStatus& status, JsonWriter& json) {
  json.Key("health").BeginObject().Key("seconds_since").Number(status.seconds_since_health);
  json.Key("commands_parked").Int(status.health->commands_parked());
  json.Key("executions_waiting").Int(status.health->executions_waiting());
  json.Key("memory_waits").Int(status.health->memory_waits()).Key("quota_waits").BeginArray();
  for (const auto& wait : status.health->quota_waits()) {
    json.BeginObject().Key("client").Int(static_cast<int64_t>(wait.session())).Key("user").String(wait.user());
    json.Key("position").Int(wait.position()).Key("why").String(wait.why()).EndObject();
  }
  json.EndArray().EndObject();
}

void WriteMetrics(const ::pathways::v1::MetricsReport& metrics, JsonWriter& json) {
  const auto& dataflow = metrics.dataflow();
  json.Key("metrics").BeginObject().Key("launches").Int(static_cast<int64_t>(metrics.launches()));
  json.Key("device_seconds").Number(metrics.device_microseconds() * 1e-6);
  json.Key("spilled_bytes").Int(metrics.spilled_bytes());
  json.Key("moved_out").Int(static_cast<int64_t>(metrics.moved_out()));
  json.Key("moved_back").Int(static_cast<int64_t>(metrics.moved_back()));
  json.Key("dataflow_tuples").Int(static_cast<int64_t>(dataflow.tuples_sent()));
  json.Key("dataflow_reports").Int(static_cast<int64_t>(dataflow.reports_sent()));
  json.Key("critical_messages").Int(static_cast<int64_t>(dataflow.critical_messages()));
  json.Key("critical_frames").Int(static_cast<int64_t>(dataflow.critical_frames()));
  json.Key("coalesced_messages").Int(static_cast<int64_t>(dataflow.coalesced_messages()));
  json.Key("coalesced_frames").Int(static_cast<int64_t>(dataflow.coalesced_frames())).EndObject();
}

void WriteMachine(const ::pathways::v1::Examination& machine, JsonWriter& json) {
  json.Key("release").String(machine.release());
  json.Key("files_open")
      .Int(static_cast<int64_t>(machine.files_open()))
      .Key("files_limit")
      .Int(static_cast<int64_t>(machine.files_limit()));
  json.Key("shared_memory_free_bytes").Int(static_cast<int64_t>(machine.shared_memory_free_bytes()));
  json.Key("shared_memory_total_bytes").Int(static_cast<int64_t>(machine.shared_memory_total_bytes()));
  json.Key("disk").String(machine.disk()).Key("disk_free_bytes").Int(static_cast<int64_t>(machine.disk_free_bytes()));
  json.Key("disk_total_bytes").Int(static_cast<int64_t>(machine.disk_total_bytes()));
}

void WriteMachineOf(const HostStatus& status, JsonWriter& json) {
  json.Key("machine").BeginObject();
  json.Key("clock_ahead_seconds").Number(status.clock_ahead_seconds);
  if (status.certificate_seconds.has_value()) json.Key("certificate_seconds").Number(*status.certificate_seconds);
  WriteMachine(*status.examination, json);
  json.EndObject();
}

void WriteController(const StatusReport& report, JsonWriter& json) {
  if (report.machine.has_value()) {
    json.Key("machine").BeginObject();
    WriteMachine(*report.machine, json);
    json.EndObject();
  }
  json.Key("certificates").BeginObject();
  for (const auto& [name, seconds] : report.certificates) json.Key(name).Number(seconds);
  json.EndObject();
}

void WriteHost(const resource::Host& host, const HostStatus& status, JsonWriter& json) {
  json.BeginObject().Key("id").Int(host.id.v).Key("name").String(host.name).Key("island").Int(host.island.v);
  json.Key("state").String(status.state).Key("pid").Int(status.pid);
  json.Key("platform").String(host.platform_name).Key("platform_version").String(host.platform_version);
  json.Key("data_address").String(status.data_address).Key("peer").String(status.peer);
  if (status.seconds_away.has_value()) json.Key("seconds_away").Number(*status.seconds_away);
  json.Key("seconds_since_heard").Number(status.seconds_since_heard).Key("ops_in_flight").Int(status.ops_in_flight);
  json.Key("frames_sent").Int(status.frames_sent).Key("bytes_sent").Int(status.bytes_sent);
  json.Key("frames_received").Int(status.frames_received).Key("bytes_received").Int(status.bytes_received);
  json.Key("commands").BeginObject();
  for (const auto& [kind, count] : status.commands) json.Key(kind).Int(count);
  json.EndObject();
  if (status.health.has_value()) WriteHealth(status, json);
  if (status.metrics.has_value()) WriteMetrics(*status.metrics, json);
  if (status.examination.has_value()) WriteMachineOf(status, json);
  json.Key("devices").BeginArray();
  for (DeviceId device : host.devices) json.Int(device.v);
  json.EndArray().EndObject();
}

void WriteDevice(const resource::Device& device, const HostStatus& host, JsonWriter& json) {
  json.BeginObject().Key("id").Int(device.id.v).Key("host").Int(device.host.v).Key("island").Int(device.island.v);
  json.Key("local_ordinal").Int(device.local_ordinal).Key("kind").String(device.description.kind);
  json.Key("memory_kinds").BeginArray();
  for (const auto& memory : device.description.memories) json.String(memory.kind);
  json.EndArray();
  if (host.metrics.has_value() && device.local_ordinal < host.metrics->memory().devices_size()) {
    const auto& memory = host.metrics->memory().devices(device.local_ordinal);
    json.Key("memory").BeginObject();
    json.Key("used_bytes")
        .Int(memory.used_bytes())
        .Key("peak_bytes")
        .Int(memory.peak_bytes())
        .Key("limit_bytes")
        .Int(memory.limit_bytes());
    json.Key("used_by_client").BeginObject();
    absl::InlinedVector<std::pair<uint64_t, int64_t>, 8> used(memory.used_by_session().begin(), memory.used_by_session().end());
    std::sort(used.begin(), used.end());
    for (const auto& [session, bytes] : used) json.Key(std::to_string(session)).Int(bytes);
    json.EndObject().EndObject();
  }
  json.EndObject();
}

void WriteClient(const ClientStatus& client, JsonWriter& json) {
  json.BeginObject().Key("id").Int(client.session.v).Key("description").String(client.description);
  if (!client.user.empty()) json.Key("user").String(client.user);
  json.Key("seconds_connected").Number(client.seconds_connected);
  if (client.seconds_away.has_value()) json.Key("seconds_away").Number(*client.seconds_away);
  json.Key("arrays").Int(client.arrays).Key("array_bytes").Int(client.array_bytes);
  json.Key("staged_bytes").Int(client.staged_bytes).Key("staged_peak_bytes").Int(client.staged_peak_bytes);
  json.Key("stores_waiting").Int(client.stores_waiting).Key("stores_held_back").Int(client.stores_held_back);
  json.Key("executables").Int(client.executables);
  const gang::Scheduler::ClientStats& gangs = client.gangs;
  json.Key("weight").Number(gangs.share.weight).Key("priority").Int(gangs.share.priority);
  json.Key("device_seconds").Number(static_cast<double>(gangs.device_ns) * 1e-9).Key("waiting").Int(gangs.waiting);
  json.Key("running").Int(gangs.granted).Key("completed").Int(gangs.done).EndObject();
}

void WriteSlice(const SliceStatus& slice, JsonWriter& json) {
  json.BeginObject().Key("id").Int(slice.slice.v).Key("client").Int(slice.client.v).Key("state").String(slice.state);
  json.Key("count").Int(slice.count).Key("exclusive").Bool(slice.exclusive);
  if (slice.state == "waiting") {
    json.Key("position").Int(slice.position).Key("waits_for").String(slice.waits_for).EndObject();
    return;
  }
  json.Key("island").String(slice.island).Key("epoch").Int(slice.epoch).Key("virtual_devices").BeginArray();
  for (DeviceId device : slice.devices) json.Int(device.v);
  json.EndArray().Key("devices").BeginArray();
  for (DeviceId device : slice.physical) json.Int(device.v);
  json.EndArray().EndObject();
}

void WriteHang(const HangStatus& hang, JsonWriter& json) {
  json.BeginObject()
      .Key("computation")
      .Int(static_cast<int64_t>(hang.gang))
      .Key("client")
      .Int(static_cast<int64_t>(hang.client.v));
  json.Key("program").String(hang.program).Key("seconds").Number(hang.seconds);
  if (hang.predicted_seconds.has_value()) json.Key("predicted_seconds").Number(*hang.predicted_seconds);
  json.Key("hosts").BeginArray();
  for (const HangStatus::Part& part : hang.parts)
    json.BeginObject().Key("name").String(part.host).Key("state").String(part.state).EndObject();
  json.EndArray().Key("stacks").BeginArray();
  for (const HangStatus::Stack& stack : hang.stacks)
    json.BeginObject()
        .Key("host")
        .String(stack.host)
        .Key("process")
        .String(stack.process)
        .Key("text")
        .String(stack.text)
        .EndObject();
  json.EndArray().EndObject();
}

void WriteEvents(const StatusReport& report, JsonWriter& json) {
  json.Key("events").BeginArray();
  for (const ClusterEvent& event : report.events) {
    json.BeginObject().Key("seconds_ago").Number(absl::ToDoubleSeconds(report.now - event.when));
    json.Key("kind").String(event.kind).Key("text").String(event.text).EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string ToJson(const StatusReport& report) {
  static const HostStatus kUnknown;
  auto status_of = [&](HostId id) -> const HostStatus& {
    auto it = report.hosts.find(id);
    return it == report.hosts.end() ? kUnknown : it->second;
  };
  JsonWriter json;
  json.BeginObject()
      .Key("version")
      .String(report.version)
      .Key("pid")
      .Int(report.pid)
      .Key("uptime_seconds")
      .Number(report.uptime_seconds);
  json.Key("state").String(report.formed ? "formed" : "forming").Key("expected_hosts").Int(report.expected_hosts);
  json.Key("joined_hosts")
      .Int(report.joined_hosts)
      .Key("workers_address")
      .String(report.workers_address)
      .Key("platform")
      .String(report.platform_name);
  json.Key("stablehlo_version").String(report.stablehlo_version).Key("policy").String(report.policy);
  json.Key("granted").Int(report.granted).Key("translated_programs").Int(report.translated_programs);
  json.Key("array_bytes").Int(report.array_bytes);
  WriteController(report, json);
  WriteIslands(report, json);
  json.Key("hosts").BeginArray();
  for (const resource::Host& host : report.topology->hosts) WriteHost(host, status_of(host.id), json);
  json.EndArray().Key("devices").BeginArray();
  for (const resource::Device& device : report.topology->devices) WriteDevice(device, status_of(device.host), json);
  json.EndArray().Key("clients").BeginArray();
  for (const ClientStatus& client : report.clients) WriteClient(client, json);
  json.EndArray().Key("waiting_clients").BeginArray();
  for (const WaitingClientStatus& client : report.waiting_clients) {
    json.BeginObject().Key("description").String(client.description).Key("user").String(client.user);
    json.Key("position").Int(client.position).Key("why").String(client.why).EndObject();
  }
  json.EndArray().Key("slices").BeginArray();
  for (const SliceStatus& slice : report.slices) WriteSlice(slice, json);
  json.EndArray();
  if (report.hangs_named.has_value()) json.Key("hangs_named").Int(static_cast<int64_t>(*report.hangs_named));
  json.Key("hangs").BeginArray();
  for (const HangStatus& hang : report.hangs) WriteHang(hang, json);
  json.EndArray();
  WriteEvents(report, json);
  json.EndObject();
  return json.Take();
}

}  // namespace pw::controller
