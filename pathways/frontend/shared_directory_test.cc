#include "pathways/frontend/shared_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace pw::frontend {
namespace {

class SharedDirectory : public ::testing::Test {
 protected:
  SharedDirectory() {
    std::string name = "/dev/shm/pw-test-XXXXXX";
    path_ = mkdtemp(name.data());
    directory_ = *OpenSharedDirectory(path_);
  }
  ~SharedDirectory() override {
    close(directory_);
    std::filesystem::remove_all(path_);
  }
  std::string File(uint64_t handle) const { return path_ + "/lt_" + std::to_string(handle); }
  void Write(uint64_t handle, const std::string& text) const { std::ofstream(File(handle)) << text; }
  absl::StatusOr<Bytes> Take(uint64_t handle, int64_t size) { return TakeSharedFile(directory_, "", handle, size, &factory_); }

  std::string path_;
  int directory_;
  net::SharedMemoryFactory factory_{1};
};

TEST_F(SharedDirectory, AFileInMemoryIsAdoptedAndLosesItsName) {
  Write(1, "contents");
  const absl::StatusOr<Bytes> bytes = Take(1, 8);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->view(), "contents");
  EXPECT_TRUE(net::NameOf(*bytes).has_value());
  EXPECT_TRUE(std::filesystem::is_empty(path_));
  EXPECT_EQ(net::OpenShared(*net::NameOf(*bytes), true)->view(), "contents");
}

TEST_F(SharedDirectory, AFileThatSomebodyCouldStillCutShortIsCopied) {
  Write(1, "contents");
  const int other = open(File(1).c_str(), O_RDWR);
  const absl::StatusOr<Bytes> bytes = Take(1, 8);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(ftruncate(other, 0), 0);
  close(other);
  EXPECT_EQ(bytes->view(), "contents");
  EXPECT_FALSE(net::NameOf(*bytes).has_value());
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(SharedDirectory, AFileWithAnotherNameIsCopiedAndSoAreThoseOverTheLimit) {
  Write(1, "contents");
  std::filesystem::create_hard_link(File(1), path_ + "/another");
  const absl::StatusOr<Bytes> linked = Take(1, 8);
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_FALSE(net::NameOf(*linked).has_value());
  Write(2, "contents");
  Write(3, "contents");
  const absl::StatusOr<Bytes> first = Take(2, 8), second = Take(3, 8);
  EXPECT_TRUE(net::NameOf(*first).has_value());
  EXPECT_FALSE(net::NameOf(*second).has_value());
  EXPECT_EQ(second->view(), "contents");
}

TEST_F(SharedDirectory, TheFolderOfAClientThatHasGoneIsRemoved) {
  std::filesystem::create_directory(path_ + "/client");
  std::ofstream(path_ + "/client/lt_1") << "never asked for";
  std::filesystem::create_directory(path_ + "/another");
  std::ofstream(path_ + "/another/mine") << "not a host buffer";
  std::filesystem::create_directory_symlink(path_ + "/another", path_ + "/link");
  for (const char* name : {"client", "another", "link", "absent", "..", ""}) RemoveClientFolder(directory_, name);
  EXPECT_FALSE(std::filesystem::exists(path_ + "/client"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/another/mine"));
}

TEST_F(SharedDirectory, AFileOfAnotherSizeStays) {
  Write(1, "contents");
  EXPECT_EQ(Take(1, 9).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Take(2, 9).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::is_empty(path_));
}

}  // namespace
}  // namespace pw::frontend
