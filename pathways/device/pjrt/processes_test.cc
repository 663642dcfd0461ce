// Tests the numbering of a computation's other processes.
#include "pathways/device/pjrt/processes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

}  // namespace
}  // namespace pw::device
