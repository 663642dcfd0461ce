// Tests the numbering of a computation's processes.
#include "pathways/device/pjrt/processes.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/device/device.h"

namespace pw::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int> NumbersIn(pjrt::Processes& processes, const std::vector<std::string>& addresses) {
  const absl::StatusOr<std::vector<int>> numbers = processes.NumbersOf(addresses);
  EXPECT_TRUE(numbers.ok()) << numbers.status();
  return numbers.value_or(std::vector<int>());
}

absl::Status RefusalIn(pjrt::Processes& processes, const std::vector<std::string>& addresses) {
  return processes.NumbersOf(addresses).status();
}

TEST(NamedProcessesTest, NumbersAreGivenWhenNamedAndFreedWhenGone) {
  pjrt::NamedProcesses processes(2);
  EXPECT_EQ(processes.node(), 0);
  EXPECT_EQ(processes.nodes(), 3);
  EXPECT_THAT(NumbersIn(processes, {"", "a", "b", "a"}), ElementsAre(0, 1, 2, 1));
  EXPECT_EQ(RefusalIn(processes, {"c"}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(processes.Forget("a"), 1);
  EXPECT_EQ(processes.Forget("a"), -1);
  EXPECT_THAT(NumbersIn(processes, {"c"}), ElementsAre(1));
  EXPECT_THAT(processes.Gone(), IsEmpty());
}

TEST(NamedProcessesTest, TheStoreHasTheKeysOfProcessesAlone) {
  pjrt::NamedProcesses processes(2);
  KeyValues& store = *processes.store();
  EXPECT_EQ(store.TryGet("pathways-cpu/process/0").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(store.Put("pathways-cpu/process/0", "17 secret").ok());
  EXPECT_EQ(processes.own_address(), "17 secret");
  EXPECT_EQ(*store.Get("pathways-cpu/process/0", absl::ZeroDuration()), "17 secret");
  NumbersIn(processes, {"18 other"});
  EXPECT_EQ(*store.TryGet("pathways-cpu/process/1"), "18 other");
  EXPECT_EQ(store.TryGet("another/process/1").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.TryGet("pathways-cpu/process/2").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(store.Put("local_topology/cuda/0", "x").message()), HasSubstr("only a fixed world has one"));
  EXPECT_EQ(processes.own_address(), "17 secret");
}

TEST(NamedProcessesTest, ALaunchLearnsWhichProcessIsGone) {
  pjrt::NamedProcesses processes(1);
  EXPECT_THAT(NumbersIn(processes, {"17 secret @name"}), ElementsAre(1));
  processes.Forget("17 secret @name");
  const absl::Status gone = processes.store()->TryGet("pathways-cpu/process/1").status();
  EXPECT_TRUE(device::BlamesProcess(gone, "17 secret @name")) << gone;
  EXPECT_FALSE(device::BlamesProcess(gone, "18 secret @name"));
  EXPECT_FALSE(device::BlamesProcess(gone, ""));
}

TEST(WorldProcessesTest, AProcessHasItsNodesNumberEverywhere) {
  pjrt::WorldProcesses processes({"w1", 1, 3, nullptr});
  EXPECT_EQ(processes.own_address(), "1 of world w1");
  EXPECT_EQ(processes.node(), 1);
  EXPECT_EQ(processes.nodes(), 3);
  EXPECT_THAT(NumbersIn(processes, {"2 of world w1", "", "0 of world w1", "1 of world w1"}), ElementsAre(2, 1, 0, 1));
  EXPECT_EQ(RefusalIn(processes, {"3 of world w1"}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(WorldProcessesTest, ProcessesOfOtherWorldsCannotTakePart) {
  pjrt::WorldProcesses processes({"w1", 0, 2, nullptr});
  const absl::Status refused = RefusalIn(processes, {"", "1 of world w2"});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a mesh over the devices of one island"));
  EXPECT_EQ(processes.Forget("1 of world w2"), -1);
}

TEST(WorldProcessesTest, ALostHostHasAStandInThatTheProgramDoesNotName) {
  pjrt::WorldProcesses processes({"w1", 0, 4, nullptr});
  EXPECT_THAT(NumbersIn(processes, {"lost-host-3", "2 of world w1", "", "lost-host-7", "lost-host-3"}),
              ElementsAre(1, 2, 0, 3, 1));
  pjrt::WorldProcesses alone({"w1", 0, 1, nullptr});
  EXPECT_EQ(RefusalIn(alone, {"", "lost-host-3"}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WorldProcessesTest, AProcessThatIsGoneStaysGone) {
  pjrt::WorldProcesses processes({"w1", 0, 3, nullptr});
  EXPECT_THAT(processes.Gone(), ElementsAre(false, false, false));
  EXPECT_EQ(processes.Forget("2 of world w1"), 2);
  EXPECT_EQ(processes.Forget("0 of world w1"), -1) << "this process";
  EXPECT_EQ(processes.Forget("lost-host-3"), -1);
  EXPECT_THAT(processes.Gone(), ElementsAre(false, false, true));
  EXPECT_THAT(NumbersIn(processes, {"2 of world w1"}), ElementsAre(2)) << "no other process takes its number";
}

}  // namespace
}  // namespace pw::device
