#include "pathways/controller/metrics_page.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/http/metrics_text.h"

namespace pw::controller {
namespace {

using http::MetricsText;
using Labels = MetricsText::Labels;

std::string Text(uint64_t id) { return absl::StrCat(id); }

// A host, its reports, and the labels that name it. A host that returns is a new host with the old name, so its labels stay the
// same.
struct NamedHost {
  const resource::Host* host;
  const HostStatus* status;
  Labels labels;
};

std::map<IslandId, std::string> IslandNames(const StatusReport& report) {
  std::map<IslandId, std::string> names;
  for (const resource::Island& island : report.topology->islands) names[island.id] = island.name;
  return names;
}

std::vector<NamedHost> NamedHosts(const StatusReport& report) {
  std::map<IslandId, std::string> islands = IslandNames(report);
  std::vector<NamedHost> hosts;
  for (const resource::Host& host : report.topology->hosts) {
    const auto status = report.hosts.find(host.id);
    if (status == report.hosts.end()) continue;  // it is about to be admitted
    hosts.push_back({&host, &status->second, {{"island", islands[host.island]}, {"host", host.name}}});
  }
  return hosts;
}

Labels With(Labels labels, absl::string_view name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

void AddCluster(const StatusReport& report, MetricsText* text) {
  text->Gauge("pathways_controller_info", "Always 1; its labels describe the cluster.")
      .Value({{"version", report.version}, {"platform", report.platform_name}, {"policy", report.policy}}, 1);
  text->Gauge("pathways_formed", "1 once the expected hosts have joined and programs are served, else 0.")
      .Value(report.formed ? 1 : 0);
  text->Gauge("pathways_hosts_expected", "Hosts with which the cluster forms.").Value(report.expected_hosts);
  std::map<std::string, int> states = {{"up", 0}, {"busy", 0}, {"silent", 0}, {"away", 0}};
  for (const auto& [id, host] : report.hosts) ++states[host.state];
  text->Gauge("pathways_hosts", "Hosts that have joined, by state (docs/status.md).");
  for (const auto& [state, count] : states) text->Value({{"state", state}}, count);
  text->Gauge("pathways_devices", "Devices of the hosts that have joined.")
      .Value(static_cast<double>(report.topology->devices.size()));
  text->Gauge("pathways_clients", "Connected sessions of programs.").Value(static_cast<double>(report.clients.size()));
  text->Counter("pathways_grants_total", "Computations granted to devices.").Value(static_cast<double>(report.granted));
  text->Gauge("pathways_hangs", "Computations that take far longer than was predicted.")
      .Value(static_cast<double>(report.hangs.size()));
  text->Counter("pathways_hangs_total", "Computations that were found to hang, since the controller started.")
      .Value(static_cast<double>(report.hangs_named.value_or(0)));
  text->Counter("pathways_translated_programs_total", "Programs of newer clients that were translated and compiled.")
      .Value(static_cast<double>(report.translated_programs));
  text->Counter("pathways_controller_array_bytes_total", "Bytes of clients' arrays that have passed through the controller.")
      .Value(static_cast<double>(report.array_bytes));
}

void AddCertificates(const StatusReport& report, MetricsText* text) {
  text->Gauge("pathways_certificate_seconds", "Seconds until a certificate of the controller ends, by its name.");
  for (const auto& [name, seconds] : report.certificates) text->Value({{"certificate", name}}, seconds);
}

// Adds what the hosts have found out about their machines.
void AddMachines(const std::vector<NamedHost>& hosts, MetricsText* text) {
  const auto add = [&](const std::function<std::optional<double>(const HostStatus&)>& read) {
    for (const NamedHost& one : hosts) {
      if (!one.status->examination.has_value()) continue;
      if (const std::optional<double> value = read(*one.status); value.has_value()) text->Value(one.labels, *value);
    }
  };
  const auto of_disk = [](const HostStatus& host, uint64_t bytes) {
    return host.examination->disk_total_bytes() == 0 ? std::nullopt : std::optional<double>(static_cast<double>(bytes));
  };
  text->Gauge("pathways_host_clock_ahead_seconds", "The host's clock minus the controller's, at least; negative: it is behind.");
  add([](const HostStatus& host) { return std::optional<double>(host.clock_ahead_seconds); });
  text->Gauge("pathways_host_disk_free_bytes",
              "Free bytes of the fullest disk with the host's log, compiled programs or files of clients.");
  add([&](const HostStatus& host) { return of_disk(host, host.examination->disk_free_bytes()); });
  text->Gauge("pathways_host_disk_bytes", "The size of that disk.");
  add([&](const HostStatus& host) { return of_disk(host, host.examination->disk_total_bytes()); });
  text->Gauge("pathways_host_certificate_seconds", "Seconds until the host's certificate ends.");
  add([](const HostStatus& host) { return host.certificate_seconds; });
}

void AddHosts(const std::vector<NamedHost>& hosts, MetricsText* text) {
  using Read = std::function<double(const HostStatus&)>;
  const auto add = [&](const Read& read) {
    for (const NamedHost& one : hosts) text->Value(one.labels, read(*one.status));
  };
  text->Gauge("pathways_host_up", "1 while the host answers, 0 while it is busy, silent or away.");
  add([](const HostStatus& host) { return host.state == "up" ? 1 : 0; });
  text->Gauge("pathways_host_heard_seconds_ago", "Seconds since the host's last message.");
  add([](const HostStatus& host) { return host.seconds_since_heard; });
  text->Gauge("pathways_host_commands_in_flight", "Commands sent to the host and not reported complete.");
  add([](const HostStatus& host) { return static_cast<double>(host.ops_in_flight); });
  text->Counter("pathways_host_sent_bytes_total", "Bytes that the controller has sent to the host.");
  add([](const HostStatus& host) { return static_cast<double>(host.bytes_sent); });
  text->Counter("pathways_host_received_bytes_total", "Bytes that the controller has received from the host.");
  add([](const HostStatus& host) { return static_cast<double>(host.bytes_received); });
  text->Counter("pathways_host_sent_frames_total", "Frames that the controller has sent to the host.");
  add([](const HostStatus& host) { return static_cast<double>(host.frames_sent); });
  text->Counter("pathways_host_received_frames_total", "Frames that the controller has received from the host.");
  add([](const HostStatus& host) { return static_cast<double>(host.frames_received); });
  text->Counter("pathways_host_commands_total", "Commands sent to the host, by kind.");
  for (const NamedHost& one : hosts) {
    for (const auto& [kind, count] : one.status->commands)
      text->Value(With(one.labels, "kind", std::string(kind)), static_cast<double>(count));
  }
}

void AddHealth(const std::vector<NamedHost>& hosts, MetricsText* text) {
  using Report = ::pathways::v1::HealthReport;
  const auto add = [&](int64_t (Report::*read)() const) {
    for (const NamedHost& one : hosts) {
      if (one.status->health.has_value()) text->Value(one.labels, static_cast<double>(((*one.status->health).*read)()));
    }
  };
  text->Gauge("pathways_host_commands_parked", "Commands on the host that wait for arrays, memory or their turn.");
  add(&Report::commands_parked);
  text->Gauge("pathways_host_executions_waiting", "Computations on the host that wait for their turn on the devices.");
  add(&Report::executions_waiting);
  text->Gauge("pathways_host_memory_waits", "Commands on the host that wait for memory.");
  add(&Report::memory_waits);
}

void AddHostMetrics(const std::vector<NamedHost>& hosts, MetricsText* text) {
  using Report = ::pathways::v1::MetricsReport;
  const auto add = [&](const std::function<double(const Report&)>& read) {
    for (const NamedHost& one : hosts) {
      if (one.status->metrics.has_value()) text->Value(one.labels, read(*one.status->metrics));
    }
  };
  text->Counter("pathways_host_launches_total", "Computations that the host's devices have completed.");
  add([](const Report& report) { return static_cast<double>(report.launches()); });
  text->Counter("pathways_host_device_seconds_total", "Device time of these computations, summed over the host's devices.");
  add([](const Report& report) { return report.device_microseconds() * 1e-6; });
  text->Gauge("pathways_host_spilled_bytes",
              "Bytes of arrays that have been moved to the host's memory for lack of device memory.");
  add([](const Report& report) { return static_cast<double>(report.spilled_bytes()); });
}

void AddDevices(const StatusReport& report, const std::vector<NamedHost>& hosts, MetricsText* text) {
  struct Value {
    Labels labels;
    double used, peak, limit;
  };
  std::vector<Value> values;
  std::map<HostId, const NamedHost*> by_id;
  for (const NamedHost& one : hosts) by_id[one.host->id] = &one;
  for (const resource::Device& device : report.topology->devices) {
    const auto found = by_id.find(device.host);
    if (found == by_id.end() || !found->second->status->metrics.has_value()) continue;
    const auto& memory = found->second->status->metrics->memory();
    if (device.local_ordinal >= memory.devices_size()) continue;
    const auto& one = memory.devices(device.local_ordinal);
    values.push_back({With(found->second->labels, "device", Text(device.id.v)), static_cast<double>(one.used_bytes()),
                      static_cast<double>(one.peak_bytes()), static_cast<double>(one.limit_bytes())});
  }
  text->Gauge("pathways_device_memory_used_bytes", "Bytes of arrays on the device.");
  for (const Value& value : values) text->Value(value.labels, value.used);
  text->Gauge("pathways_device_memory_peak_bytes", "The most bytes of arrays that the device has had.");
  for (const Value& value : values) text->Value(value.labels, value.peak);
  text->Gauge("pathways_device_memory_limit_bytes", "The limit of the device's memory for arrays; 0: none.");
  for (const Value& value : values) text->Value(value.labels, value.limit);
}

void AddClients(const StatusReport& report, MetricsText* text) {
  const auto add = [&](const std::function<double(const ClientStatus&)>& read) {
    for (const ClientStatus& client : report.clients) text->Value({{"client", Text(client.session.v)}}, read(client));
  };
  text->Gauge("pathways_client_info", "Always 1; its labels describe the client.");
  for (const ClientStatus& client : report.clients) {
    text->Value({{"client", Text(client.session.v)}, {"description", client.description}}, 1);
  }
  text->Gauge("pathways_client_arrays", "Arrays that the client holds.");
  add([](const ClientStatus& client) { return static_cast<double>(client.arrays); });
  text->Gauge("pathways_client_array_bytes", "Bytes of the client's arrays, each array counted once.");
  add([](const ClientStatus& client) { return static_cast<double>(client.array_bytes); });
  text->Gauge("pathways_client_staged_bytes", "Bytes of the client's host buffers in the controller.");
  add([](const ClientStatus& client) { return static_cast<double>(client.staged_bytes); });
  text->Gauge("pathways_client_executables", "Compiled programs that the client holds.");
  add([](const ClientStatus& client) { return static_cast<double>(client.executables); });
  text->Gauge("pathways_client_weight",
              "The client's weight: clients get device time in proportion to it under the policy 'share'.");
  add([](const ClientStatus& client) { return client.gangs.share.weight; });
  text->Gauge("pathways_client_priority", "The client's priority, for the policy 'priority'.");
  add([](const ClientStatus& client) { return static_cast<double>(client.gangs.share.priority); });
  text->Counter("pathways_client_device_seconds_total", "Device time of the client's computations, summed over devices.");
  add([](const ClientStatus& client) { return static_cast<double>(client.gangs.device_ns) * 1e-9; });
  text->Gauge("pathways_client_computations_waiting", "The client's computations that are not granted yet: the queue.");
  add([](const ClientStatus& client) { return static_cast<double>(client.gangs.waiting); });
  text->Gauge("pathways_client_computations_running", "The client's computations that are granted and not done.");
  add([](const ClientStatus& client) { return static_cast<double>(client.gangs.granted); });
  text->Counter("pathways_client_computations_total", "The client's computations that are done.");
  add([](const ClientStatus& client) { return static_cast<double>(client.gangs.done); });
}

void AddSlices(const StatusReport& report, MetricsText* text) {
  std::map<std::string, int> states = {{"placed", 0}, {"waiting", 0}, {"broken", 0}, {"suspended", 0}};
  for (const SliceStatus& slice : report.slices) ++states[slice.state];
  text->Gauge("pathways_slices", "Virtual slices, by state (docs/slices.md).");
  for (const auto& [state, count] : states) text->Value({{"state", state}}, count);
}

}  // namespace

std::string ToMetricsPage(const StatusReport& report) {
  MetricsText text;
  const std::vector<NamedHost> hosts = NamedHosts(report);
  AddCluster(report, &text);
  AddCertificates(report, &text);
  AddHosts(hosts, &text);
  AddMachines(hosts, &text);
  AddHealth(hosts, &text);
  AddHostMetrics(hosts, &text);
  AddDevices(report, hosts, &text);
  AddClients(report, &text);
  AddSlices(report, &text);
  return text.Take();
}

}  // namespace pw::controller
