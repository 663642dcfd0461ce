#include "pathways/worker/execute/kept_programs.h"

#include "gtest/gtest.h"

namespace pw::worker {
namespace {

TEST(KeptProgramsTest, AProgramOverSeveralHostsIsKeptForTheSameProcesses) {
  device::CompileRequest request;
  EXPECT_EQ(KeptName(request, "key"), "key");
  request.positions = {{"", 0}, {"here:1 a", 1}};
  const std::string name = KeptName(request, "key");
  EXPECT_NE(name, KeptName(request, "other key"));
  EXPECT_EQ(name, KeptName(request, "key"));
  request.positions[1].process = "here:2 a";
  EXPECT_NE(name, KeptName(request, "key")) << "the other process has started anew";
  request.positions = {{"", 0}, {"here:1 ", 11}};
  EXPECT_NE(name, KeptName(request, "key"));
}

TEST(KeptProgramsTest, AProgramThatCallsItsClientIsNotKept) {
  device::CompileRequest request;
  request.host_callbacks = true;
  EXPECT_EQ(KeptName(request, "key"), "");
}

}  // namespace
}  // namespace pw::worker
