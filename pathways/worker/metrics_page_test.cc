#include "pathways/worker/metrics_page.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::worker {
namespace {

using ::testing::HasSubstr;

TEST(MetricsPage, ShowsLaunchesMemoryAndWaits) {
  MetricsPage page{.host = "one", .island = "rack1", .joined = true};
  page.metrics.set_launches(9);
  page.metrics.set_device_microseconds(250'000);
  page.metrics.set_moved_out(4);
  page.metrics.mutable_memory()->add_devices()->set_used_bytes(1);
  page.metrics.mutable_memory()->add_devices()->set_used_bytes(77);
  page.health.set_memory_waits(2);
  const std::string text = page.Text();
  for (const char* line : {"pathways_worker_info{island=\"rack1\",host=\"one\"} 1\n", "pathways_worker_joined 1\n",
                           "pathways_worker_launches_total 9\n", "pathways_worker_device_seconds_total 0.25\n",
                           "pathways_worker_device_memory_used_bytes{ordinal=\"1\"} 77\n", "pathways_worker_memory_waits 2\n",
                           "pathways_worker_spill_moves_total{direction=\"out\"} 4\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MetricsPage, AHostWithoutAControllerSaysSo) {
  EXPECT_THAT((MetricsPage{.host = "one", .island = "a"}.Text()), HasSubstr("pathways_worker_joined 0\n"));
}

}  // namespace
}  // namespace pw::worker
