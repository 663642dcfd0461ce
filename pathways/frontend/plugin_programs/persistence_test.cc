// The programs that write and read arrays, and profiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/frontend/testing/session_fixture.h"
#include "pathways/storage/files.h"
#include "pathways/storage/testing.h"

namespace pw::frontend {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PersistenceTest : public testing::ClientSessionTest {
 protected:
  static std::string Item(const fs::path& location, const std::string& shape, const std::string& name = "x") {
    return absl::StrCat(R"({"b64_location": ")", absl::Base64Escape(location.string()), R"(", "b64_name": ")",
                        absl::Base64Escape(name),
                        R"(", "b64_hlo_sharding_string": "", "devices": {"device_ids": [1]}, "shape": )", shape, "}");
  }
  IfrtResponse CompilePlugin(const std::string& json) {
    return Compile("xla::ifrt::PluginProgram", "__serialized_plugin_program " + json);
  }
  IfrtResponse CompileWrite(const fs::path& location) {
    return CompilePlugin(
        absl::StrCat(R"({"bulk_persistence_write_request": {"write_requests": [)", Item(location, "[4]"), "]}}"));
  }
  IfrtResponse CompileRead(const fs::path& location, const std::string& dims) {
    const std::string shape = absl::StrCat(R"({"xla_primitive_type_str": "F32", "dimensions": )", dims, "}");
    return CompilePlugin(absl::StrCat(R"({"bulk_persistence_read_request": {"read_requests": [)", Item(location, shape), "]}}"));
  }
  const storage::testing::TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Versions, PersistenceTest, ::testing::Values(protocol::kOldest, protocol::kNewest));

TEST_P(PersistenceTest, TheClusterWritesAndReadsTheArrays) {
  Init();
  MakeFilledArray(1);
  const auto write = CompileWrite("/checkpoint");
  ASSERT_EQ(CodeOf(write), 0) << TextOf(write);
  const auto run = Execute(write.compile_response().loaded_executable_handle(), {1}, {}, 30);
  ASSERT_EQ(CodeOf(run), 0) << TextOf(run);
  EXPECT_EQ(run.loaded_executable_execute_response().outputs_size(), 0);
  const auto end = CheckFuture(30);
  ASSERT_EQ(CodeOf(end), 0) << TextOf(end);
  EXPECT_EQ(fake().saved.count("/checkpoint/x"), 1u);
  EXPECT_EQ(fake().copies_to_host, 0) << "the front end fetches nothing";

  const auto read = CompileRead("/checkpoint", "[4]");
  ASSERT_EQ(CodeOf(read), 0) << TextOf(read);
  const auto outputs = Execute(read.compile_response().loaded_executable_handle(), {}, {}, 31);
  ASSERT_EQ(outputs.loaded_executable_execute_response().outputs_size(), 1) << TextOf(outputs);
  EXPECT_EQ(CodeOf(CheckFuture(31)), 0);
  const auto& array = fake().arrays[outputs.loaded_executable_execute_response().outputs(0).array_handle()];
  EXPECT_EQ(array.data->bytes.view(), "0123456789abcdef");
  EXPECT_EQ(array.spec.sharding.devices()[0], DeviceId(1));
}

TEST_P(PersistenceTest, MistakesAreNamed) {
  Init();
  MakeFilledArray(1);
  const auto read = CompileRead("/checkpoint", "[4]");
  Execute(read.compile_response().loaded_executable_handle(), {}, {}, 29);
  EXPECT_EQ(CodeOf(CheckFuture(29)), 5) << "there is nothing to read";
  fake().save_error = absl::PermissionDeniedError("clients may not use /etc");
  const auto write = CompileWrite("/etc");
  ASSERT_EQ(CodeOf(write), 0);
  Execute(write.compile_response().loaded_executable_handle(), {1}, {}, 30);
  const auto end = CheckFuture(30);
  EXPECT_EQ(CodeOf(end), 7);
  EXPECT_THAT(TextOf(end), HasSubstr("clients may not use /etc"));
  EXPECT_EQ(CodeOf(Execute(write.compile_response().loaded_executable_handle(), {}, {}, 31)), 3);
  const auto none = CompilePlugin(R"({"bulk_persistence_write_request": {"write_requests": []}})");
  EXPECT_EQ(CodeOf(none), 3);
  EXPECT_THAT(TextOf(none), HasSubstr("Bad PluginProgram: write_requests is empty"));
  const auto two = CompilePlugin(absl::StrCat(R"({"bulk_persistence_write_request": {"write_requests": [)",
                                              Item("/a", "[4]", "x"), ", ", Item("/b", "[4]", "y"), "]}}"));
  EXPECT_EQ(CodeOf(two), 3);
  EXPECT_THAT(TextOf(two), HasSubstr("/a and /b"));
}

TEST_P(PersistenceTest, AProfileIsTakenBetweenTwoRuns) {
  Init();
  const auto profile = CompilePlugin(absl::StrCat(R"({"profileRequest": {"traceLocation": ")", folder_.path().string(),
                                                  R"(", "xprofTraceOptions": {"traceSessionName": "s1"}}})"));
  ASSERT_EQ(CodeOf(profile), 0) << TextOf(profile);
  const uint64_t executable = profile.compile_response().loaded_executable_handle();
  const auto start = Execute(executable, {}, {}, 30);
  ASSERT_EQ(start.loaded_executable_execute_response().outputs_size(), 1) << TextOf(start);
  EXPECT_EQ(CodeOf(CheckFuture(30)), 0);
  MakeFilledArray(1);
  EXPECT_EQ(CodeOf(Execute(executable, {}, {5}, 31)), 0);
  EXPECT_EQ(CodeOf(CheckFuture(31)), 0);
  auto trace = storage::ReadWholeFile(folder_.root() / "plugins/profile/s1", "pathways_controller.trace.json", 1 << 20);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(std::string(trace->view()), HasSubstr("make_array_from_host_buffer"));
  for (const std::string host : {"h0", "h1"}) {
    auto space = storage::ReadWholeFile(folder_.root() / "plugins/profile/s1", host + ".xplane.pb", 1 << 20);
    ASSERT_TRUE(space.ok()) << space.status();
    EXPECT_EQ(space->view(), host) << "the fake's hosts record their names, which come byte by byte";
  }
  EXPECT_EQ(cluster_.profiled, SessionId()) << "the hosts need not keep it";
  EXPECT_EQ(CodeOf(CompilePlugin(R"({"profileRequest": {"traceLocation": "gs://bucket/x"}})")), 7);
}

}  // namespace
}  // namespace pw::frontend
