#include "pathways/worker/python/rights.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/process/child_process.h"

namespace pw::worker {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs a shell command with these rights and returns its output before it waits.
std::string Says(const PythonRights& rights, const std::string& script) {
  ChildProcess child({WithRights(rights, "/tmp", {"sh", "-c", script + "; printf .; read -r forever"})});
  EXPECT_TRUE(child.EnsureRunning().ok());
  std::string all;
  for (char byte = 0; child.Read(&byte, 1).ok() && byte != '.';) all += byte;
  return all;
}

TEST(PythonRights, WithoutAnyOnlyTheFolderForTemporaryFilesIsSet) {
  EXPECT_THAT(WithRights({}, "/tmp/x", {"python", "-m", "host"}), ElementsAre("env", "TMPDIR=/tmp/x", "python", "-m", "host"));
}

TEST(PythonRights, AreThoseOfTheStartedProcess) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start processes as another user";
  EXPECT_EQ(Says({"nobody", 0, 0}, "id -un; id -Gn"), "nobody\nnogroup\n");
  EXPECT_EQ(Says({"nobody", 0, 0}, "echo $TMPDIR $USER $LOGNAME; grep NoNewPrivs /proc/self/status | tr -d '\\t'"),
            "/tmp nobody nobody\nNoNewPrivs:1\n");
  EXPECT_EQ(Says({"nobody", 1 << 30, 64}, "ulimit -d; ulimit -p"), "1048576\n64\n");
}

TEST(PythonRights, AreGivenOnlyWhereTheyCanBe) {
  EXPECT_TRUE(CheckRights({}).ok());
  EXPECT_TRUE(CheckRights({"", 1 << 30, 0}).ok());
  EXPECT_THAT(CheckRights({"", 0, 10}).message(), HasSubstr("needs --python-user"));
  EXPECT_THAT(CheckRights({"no such user", 0, 0}).message(), HasSubstr("no user 'no such user'"));
  EXPECT_THAT(CheckRights({"root", 0, 0}).message(), HasSubstr("name another user"));
  EXPECT_EQ(CheckRights({"nobody", 0, 0}).ok(), geteuid() == 0);
  EXPECT_FALSE(CheckRights({"", -1, 0}).ok());
}

TEST(PrivateFolder, IsTheUsersAndGoesWithAllThatIsInIt) {
  const std::string user = geteuid() == 0 ? "nobody" : "";
  auto folder = PrivateFolder::Create(user);
  ASSERT_TRUE(folder.ok()) << folder.status();
  const std::filesystem::path path = (*folder)->path();
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(info.st_uid, user.empty() ? geteuid() : getpwnam("nobody")->pw_uid);

  const std::filesystem::path elsewhere = path.string() + "-elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::ofstream(elsewhere / "kept") << "text";
  std::filesystem::create_directories(path / "a" / "b");
  std::ofstream(path / "a" / "b" / "file") << "text";
  std::filesystem::create_directory_symlink(elsewhere, path / "link");
  folder->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::exists(elsewhere / "kept")) << "no link is followed";
  std::filesystem::remove_all(elsewhere);
}

// The folders of a killed worker are removed when the next one makes a folder. Folders in use stay.
TEST(PrivateFolder, OfAProcessThatIsGoneIsRemovedByTheNext) {
  auto used = PrivateFolder::Create("");
  ASSERT_TRUE(used.ok()) << used.status();
  const std::filesystem::path left = std::filesystem::temp_directory_path() / "pathways-python-gone00";
  std::filesystem::create_directories(left / "a");
  auto next = PrivateFolder::Create("");
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists((*used)->path()));
}

}  // namespace
}  // namespace pw::worker
