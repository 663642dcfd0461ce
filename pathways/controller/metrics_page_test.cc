#include "pathways/controller/metrics_page.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StatusReport ReportOfTwoHosts() {
  StatusReport report;
  report.version = "1.2";
  report.platform_name = "cpu";
  report.policy = "share";
  report.granted = 17;
  resource::Snapshot topology;
  topology.islands = {{.id = IslandId(0), .name = "rack1", .hosts = {HostId(0), HostId(1)}}};
  for (uint32_t i : {0u, 1u}) {
    resource::Host host;
    host.id = HostId(i);
    host.island = IslandId(0);
    host.name = i == 0 ? "one" : "t\"wo";
    topology.hosts.push_back(host);
    resource::Device device;
    device.id = DeviceId(i);
    device.host = HostId(i);
    topology.devices.push_back(device);
  }
  report.topology = std::make_shared<resource::Snapshot>(topology);
  HostStatus& one = report.hosts[HostId(0)];
  one.state = "up";
  one.bytes_sent = 4096;
  one.commands = {{"execute", 12}};
  one.health.emplace().set_memory_waits(3);
  auto& machine = one.examination.emplace();
  machine.set_disk_free_bytes(3);
  machine.set_disk_total_bytes(100);
  one.clock_ahead_seconds = -1.5;
  one.certificate_seconds = 86400;
  auto& metrics = one.metrics.emplace();
  metrics.set_device_microseconds(2.5e6);
  metrics.mutable_memory()->add_devices()->set_used_bytes(512);
  report.hosts[HostId(1)].state = "silent";
  report.certificates["page"] = 9;
  ClientStatus client;
  client.session = SessionId(7);
  client.description = "jax client at x";
  client.gangs.share.weight = 2;
  client.gangs.device_ns = 1'500'000'000;
  client.gangs.waiting = 5;
  report.clients.push_back(client);
  return report;
}

TEST(MetricsPage, ShowsHostsDevicesAndClients) {
  const std::string page = ToMetricsPage(ReportOfTwoHosts());
  for (const char* line : {"pathways_controller_info{version=\"1.2\",platform=\"cpu\",policy=\"share\"} 1\n",
                           "pathways_grants_total 17\n",
                           "pathways_hosts{state=\"up\"} 1\n",
                           "pathways_hosts{state=\"silent\"} 1\n",
                           "pathways_host_up{island=\"rack1\",host=\"one\"} 1\n",
                           "pathways_host_up{island=\"rack1\",host=\"t\\\"wo\"} 0\n",
                           "pathways_host_sent_bytes_total{island=\"rack1\",host=\"one\"} 4096\n",
                           "pathways_host_commands_total{island=\"rack1\",host=\"one\",kind=\"execute\"} 12\n",
                           "pathways_host_memory_waits{island=\"rack1\",host=\"one\"} 3\n",
                           "pathways_host_device_seconds_total{island=\"rack1\",host=\"one\"} 2.5\n",
                           "pathways_device_memory_used_bytes{island=\"rack1\",host=\"one\",device=\"0\"} 512\n",
                           "pathways_client_info{client=\"7\",description=\"jax client at x\"} 1\n",
                           "pathways_client_device_seconds_total{client=\"7\"} 1.5\n",
                           "pathways_client_computations_waiting{client=\"7\"} 5\n",
                           "pathways_host_disk_free_bytes{island=\"rack1\",host=\"one\"} 3\n",
                           "pathways_host_disk_bytes{island=\"rack1\",host=\"one\"} 100\n",
                           "pathways_host_clock_ahead_seconds{island=\"rack1\",host=\"one\"} -1.5\n",
                           "pathways_host_certificate_seconds{island=\"rack1\",host=\"one\"} 86400\n",
                           "pathways_certificate_seconds{certificate=\"page\"} 9\n",
                           "pathways_client_weight{client=\"7\"} 2\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST(MetricsPage, LeavesOutWhatAHostDidNotAnswer) {
  const std::string page = ToMetricsPage(ReportOfTwoHosts());
  EXPECT_THAT(page, Not(HasSubstr("pathways_host_memory_waits{island=\"rack1\",host=\"t")));
  EXPECT_THAT(page, Not(HasSubstr("device=\"1\"")));
  EXPECT_THAT(page, Not(HasSubstr("pathways_host_disk_bytes{island=\"rack1\",host=\"t")));
}

TEST(MetricsPage, ADiskThatWasNotMeasuredYetIsLeftOut) {
  StatusReport report = ReportOfTwoHosts();
  report.hosts[HostId(0)].examination.emplace();
  EXPECT_THAT(ToMetricsPage(report), Not(HasSubstr("pathways_host_disk_bytes{")));
}

TEST(MetricsPage, AnEmptyClusterHasAllFamilies) {
  const std::string page = ToMetricsPage({});
  EXPECT_THAT(page, HasSubstr("pathways_clients 0\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE pathways_client_device_seconds_total counter\n"));
}

}  // namespace
}  // namespace pw::controller
