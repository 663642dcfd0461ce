#include "pathways/worker/execute/program_checks.h"

#include <string>

#include "gtest/gtest.h"

namespace pw::worker {
namespace {

TEST(ProgramChecks, FindsCallsIntoTheClientsProcess) {
  EXPECT_TRUE(CheckCustomCalls("calls xla_python_gpu and my_InspectSharding_thing").ok());
  EXPECT_EQ(CheckCustomCalls(absl::string_view("\0InspectSharding\0", 17)).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CheckCustomCalls("@xla_buffer_python_cpu_callback(").code(), absl::StatusCode::kUnimplemented);
}

TEST(ProgramChecks, NamesBothVersionsWhenTheProgramIsTooNew) {
  const std::string program = "ML\xefRStableHLO_v1.14.2" + std::string(1, '\0') + "rest";
  const absl::Status refusal = absl::InvalidArgumentError("cannot parse");
  ASSERT_TRUE(IsNewerThanRuntime(refusal, program, "1.13.0"));
  const std::string text(ExplainNewerProgram(refusal, program, "1.13.0").message());
  EXPECT_NE(text.find("1.14.2"), std::string::npos);
  EXPECT_NE(text.find("1.13.0"), std::string::npos);
}

TEST(ProgramChecks, OtherRefusalsAreNoneOfTheVersion) {
  const std::string program = "ML\xefRStableHLO_v1.14.2" + std::string(1, '\0') + "rest";
  const absl::Status refusal = absl::InvalidArgumentError("cannot parse");
  EXPECT_FALSE(IsNewerThanRuntime(refusal, program, "1.14.2"));
  EXPECT_FALSE(IsNewerThanRuntime(refusal, program, "")) << "a runtime that does not say its version";
  EXPECT_FALSE(IsNewerThanRuntime(refusal, "module {}", "1.13.0"));
  EXPECT_FALSE(IsNewerThanRuntime(absl::ResourceExhaustedError("out of memory allocating 64 bytes"), program, "1.13.0"));
}

}  // namespace
}  // namespace pw::worker
