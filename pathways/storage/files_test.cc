#include "pathways/storage/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "pathways/storage/testing.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using ::testing::ElementsAre;

TEST(FilesTest, PathsStayBelowTheirFolder) {
  const TemporaryFolder folder;
  const Roots roots(folder.path(), "");
  EXPECT_EQ(roots.Resolve(folder.path() / "a/b")->path(), folder.path() / "a/b");
  EXPECT_EQ(roots.Resolve(folder.path())->path(), folder.path());
  EXPECT_EQ(roots.Resolve("/etc/passwd").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(roots.Resolve(folder.path() / "../x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(roots.Resolve("relative").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(roots.Resolve("gs://bucket/x").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(FilesTest, NoLinkAndNoPipeIsFollowed) {
  TemporaryFolder folder, elsewhere;
  const Folder root = folder.root();
  const Bytes data = Bytes::Copy("mine");
  ASSERT_TRUE(WriteWholeFile({elsewhere.path(), ""}, "secret", Bytes::Copy("theirs")).ok());
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "link");
  fs::create_symlink(elsewhere.path() / "secret", folder.path() / "file");
  fs::create_symlink(elsewhere.path() / "secret", folder.path() / "new.unfinished");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  for (const absl::Status& status : {ReadWholeFile(root / "link", "secret", 100).status(), WriteWholeFile(root / "link", "new", data),
                                     ReadWholeFile(root, "file", 100).status(), WriteWholeFile(root, "new", data),
                                     ReadWholeFile(root, "pipe", 100).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  }
  EXPECT_TRUE(WriteWholeFile(root, "file", data).ok()) << "the link is replaced, not the file that it names";
  EXPECT_EQ(ReadWholeFile(root, "file", 100)->view(), "mine");
  EXPECT_EQ(ReadWholeFile({elsewhere.path(), ""}, "secret", 100)->view(), "theirs");
  EXPECT_EQ(ReadWholeFile(root, "file", 3).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadWholeFile(root / "none", "file", 3).status().code(), absl::StatusCode::kNotFound);
}

TEST(FilesTest, ObjectsAreKeptInTheirOwnFolder) {
  const Roots roots("", "/objects");
  EXPECT_EQ(roots.Resolve("gs://bucket/x")->path(), "/objects/gs/bucket/x");
  EXPECT_FALSE(roots.Resolve("gs://../x").ok());
  EXPECT_FALSE(roots.Resolve("../gs://x").ok());
  EXPECT_FALSE(roots.Resolve("gs:///etc").ok());
  EXPECT_FALSE(roots.Resolve("/tmp").ok());
}

TEST(FilesTest, APartIsReadOfAFileOfTheRightSize) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteWholeFile(folder.root() / "a", "file", Bytes::Copy("0123456789")).ok());
  EXPECT_EQ(ReadFilePart(folder.root() / "a", "file", 10, 3, 4)->view(), "3456");
  EXPECT_EQ(ReadFilePart(folder.root() / "a", "file", 10, 10, 0)->view(), "");
  EXPECT_EQ(ReadFilePart(folder.root() / "a", "file", 11, 0, 1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadFilePart(folder.root() / "a", "none", 10, 0, 1).status().code(), absl::StatusCode::kNotFound);
}

TEST(FilesTest, AFolderIsRemovedWithoutFollowingLinks) {
  const TemporaryFolder folder, elsewhere;
  ASSERT_TRUE(WriteWholeFile(elsewhere.root(), "theirs", Bytes()).ok());
  ASSERT_TRUE(WriteWholeFile(folder.root() / "a/b/c", "mine", Bytes()).ok());
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "a/b/link");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "top");
  EXPECT_THAT(*ListFolder(folder.root() / "a/b"), ElementsAre("c", "link"));
  EXPECT_EQ(ListFolder(folder.root() / "top").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RemoveFolder(folder.root() / "top/theirs").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(RemoveFolder(folder.root() / "a").ok());
  EXPECT_TRUE(RemoveFolder(folder.root() / "a").ok()) << "it is gone already";
  EXPECT_FALSE(RemoveFolder(folder.root()).ok()) << "the operator's own";
  EXPECT_THAT(*ListFolder(folder.root()), ElementsAre("top"));
  EXPECT_TRUE(fs::exists(elsewhere.path() / "theirs"));
}

}  // namespace
}  // namespace pw::storage
