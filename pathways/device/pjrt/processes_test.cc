// Tests the numbering of a computation's other processes.
#include "pathways/device/pjrt/processes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/device/device.h"

namespace pw::device {
namespace {

TEST(ProcessesTest, NumbersAreGivenWhenNamedAndFreedWhenGone) {
  pjrt::Processes processes(2);
  EXPECT_EQ(*processes.NumberOf(""), 0) << "this process";
  EXPECT_EQ(*processes.NumberOf("a"), 1);
  EXPECT_EQ(*processes.NumberOf("b"), 2);
  EXPECT_EQ(*processes.NumberOf("a"), 1);
  EXPECT_EQ(processes.NumberOf("c").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(processes.Forget("a"), 1);
  EXPECT_EQ(processes.Forget("a"), -1);
  EXPECT_EQ(*processes.NumberOf("c"), 1);
}

TEST(ProcessesTest, ALaunchLearnsWhichProcessIsGone) {
  pjrt::Processes processes(1);
  ASSERT_EQ(*processes.NumberOf("17 secret @name"), 1);
  processes.Forget("17 secret @name");
  const absl::Status gone = processes.Find("pathways-cpu/process/1").status();
  EXPECT_TRUE(device::BlamesProcess(gone, "17 secret @name")) << gone;
  EXPECT_FALSE(device::BlamesProcess(gone, "18 secret @name"));
  EXPECT_FALSE(device::BlamesProcess(gone, ""));
}

}  // namespace
}  // namespace pw::device
