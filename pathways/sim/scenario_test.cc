#include "pathways/sim/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::sim {
namespace {

using ::testing::HasSubstr;

TEST(Scenario, ReadsEveryStatement) {
  auto scenario = ParseScenario("s", R"(
    hosts 8   # a comment
    hosts_per_island 4
    devices 2
    device_memory 64KiB
    policy priority
    dispatch sequential
    heartbeat 3s
    latency 1us 2us
    bandwidth 1e9 2e9
    task_time 3us
    limit 1m
    repeats 4
    clients 3 chain length=5
    fault 1ms..2ms stop host=7 for=5s
    fault 4ms slow host=any factor=2.5 for=1s
    fault 5ms reorder host=2 by=3ms for=1s
    plant swap 20
  )");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->hosts, 8);
  EXPECT_EQ(scenario->hosts_per_island, 4);
  EXPECT_EQ(scenario->devices, 2);
  EXPECT_EQ(scenario->device_memory_bytes, 64 << 10);
  EXPECT_EQ(scenario->gang.policy, "priority");
  EXPECT_TRUE(scenario->sequential);
  EXPECT_EQ(scenario->heartbeat, absl::Seconds(3));
  EXPECT_EQ(scenario->network.between.latency, absl::Microseconds(2));
  EXPECT_EQ(scenario->network.inside.bytes_per_second, 1e9);
  EXPECT_EQ(scenario->limit, absl::Minutes(1));
  EXPECT_EQ(scenario->repeats, 4);
  ASSERT_EQ(scenario->workloads.size(), 1u);
  EXPECT_EQ(scenario->workloads[0].clients, 3);
  EXPECT_EQ(scenario->workloads[0].numbers.at("length"), 5);
  ASSERT_EQ(scenario->faults.size(), 3u);
  EXPECT_EQ(scenario->faults[0].host, 7);
  EXPECT_EQ(scenario->faults[0].latest, absl::Milliseconds(2));
  EXPECT_EQ(scenario->faults[1].factor, 2.5);
  EXPECT_EQ(scenario->faults[2].by, absl::Milliseconds(3));
  EXPECT_EQ(scenario->bug, Bug::kSwapFrames);
}

TEST(Scenario, ErrorsNameTheLineAndWhatIsWanted) {
  const std::pair<const char*, const char*> cases[] = {
      {"hosts many", "s:1: expected a number above 0, got 'many'"},
      {"hosts 1 2", "'hosts' takes one value"},
      {"\nhoste 3", "s:2: expected a statement"},
      {"fault 5ms", "a fault says when and what"},
      {"fault soon crash", "expected a time such as 5ms, got 'soon'"},
      {"fault 9ms..2ms crash", "a range that does not go back"},
      {"fault 5ms burn", "expected a kind of fault, got 'burn'"},
      {"fault 5ms crash host=4", "there is no host 4"},
      {"clients 1 sleep", "expected chain, pipeline"},
      {"clients 1 chain length=long", "expected name=number"},
      {"device_memory 3KB", "a size such as 64KiB"},
      {"policy lottery", "lottery"},
      {"latency 5us", "two values"},
      {"plant worms 3", "plant says what"},
      {"hosts 3", "nobody does anything"},
  };
  for (const auto& [text, want] : cases) {
    auto scenario = ParseScenario("s", text);
    ASSERT_FALSE(scenario.ok()) << text;
    EXPECT_THAT(std::string(scenario.status().message()), HasSubstr(want));
  }
}

}  // namespace
}  // namespace pw::sim
