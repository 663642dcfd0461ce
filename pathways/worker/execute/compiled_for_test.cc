#include "pathways/worker/execute/compiled_for.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace pw::worker {
namespace {
namespace fs = std::filesystem;

class CompiledForTest : public ::testing::Test {
 protected:
  CompiledForTest() { std::ofstream(file_) << "not an ELF file"; }
  ~CompiledForTest() override { fs::remove(file_); }
  const fs::path file_ = fs::path(::testing::TempDir()) / ("pw_compiled_for_" + std::to_string(getpid()));
};

TEST_F(CompiledForTest, TheKindOfEachDeviceCounts) {
  EXPECT_NE(CompiledFor({"a", "b"}, "", {}), CompiledFor({"b", "a"}, "", {}));
  EXPECT_NE(CompiledFor({"a"}, "", {}), CompiledFor({"b"}, "", {}));
  EXPECT_EQ(CompiledFor({"a"}, "", {}), CompiledFor({"a", "a"}, "", {})) << "hosts with fewer devices share their programs";
  EXPECT_NE(CompiledFor({"a"}, "", {"x=1"}), CompiledFor({"a"}, "", {"x=2"}));
}

TEST_F(CompiledForTest, ChangesOfThePluginAndOfItsSettingsCount) {
  const std::string before = CompiledFor({"a"}, file_, {});
  fs::last_write_time(file_, fs::last_write_time(file_) + std::chrono::hours(1));
  EXPECT_NE(CompiledFor({"a"}, file_, {}), before);
  for (const char* name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    const std::string plain = CompiledFor({"a"}, file_, {});
    ASSERT_EQ(::setenv(name, "--some_flag=1", 1), 0);
    EXPECT_NE(CompiledFor({"a"}, file_, {}), plain) << name;
    ASSERT_EQ(::setenv(name, file_.c_str(), 1), 0);  // a file with flags
    const std::string named = CompiledFor({"a"}, "", {});
    fs::last_write_time(file_, fs::last_write_time(file_) + std::chrono::hours(1));
    EXPECT_NE(CompiledFor({"a"}, "", {}), named) << name;
    ASSERT_EQ(::unsetenv(name), 0);
  }
}

TEST_F(CompiledForTest, AnElfFileIsKnownByItsBuildId) {
  const std::string id = BuildOf("/proc/self/exe");
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_GE(id.size(), 16u);
  fs::copy_file("/proc/self/exe", file_, fs::copy_options::overwrite_existing);
  EXPECT_EQ(BuildOf(file_), id) << "wherever it lies";
  EXPECT_EQ(BuildOf("/no/such/file"), "");
}

TEST_F(CompiledForTest, DamagedElfFilesHaveNoBuildId) {
  fs::copy_file("/proc/self/exe", file_, fs::copy_options::overwrite_existing);
  for (int size : {0, 5, 63, 64, 100, 200}) {
    fs::resize_file(file_, size);
    EXPECT_NE(BuildOf(file_).find(" bytes of "), std::string::npos) << size;
  }
}

}  // namespace
}  // namespace pw::worker
