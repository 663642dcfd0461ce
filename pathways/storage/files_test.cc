#include "pathways/storage/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <filesystem>

#include "pathways/base/threads/thread_pool.h"
#include "pathways/storage/testing.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::TemporaryFolder;

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
  for (const absl::Status& status :
       {ReadWholeFile(root / "link", "secret", 100).status(), WriteWholeFile(root / "link", "new", data),
        ReadWholeFile(root, "file", 100).status(), ReadWholeFile(root, "pipe", 100).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  }
  EXPECT_TRUE(WriteWholeFile(root, "file", data).ok()) << "the link is replaced, not the file that it names";
  EXPECT_TRUE(WriteWholeFile(root, "new", data).ok()) << "likewise";
  EXPECT_TRUE(WriteWholeFile(root, "pipe", data).ok()) << "likewise";
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

TEST(FilesTest, UsersHaveFoldersOfTheirOwn) {
  const TemporaryFolder folder, elsewhere;
  const fs::path base = folder.path();
  const Roots roots(base, "/objects", base / "of-{user}/saved");
  EXPECT_EQ(roots.Resolve(base / "of-ada/saved/x", "ada")->path(), base / "of-ada/saved/x");
  EXPECT_EQ(roots.Resolve(base / "of-ada/saved", "ada")->path(), base / "of-ada/saved");
  EXPECT_EQ(roots.Resolve("gs://bucket/x", "ada")->path(), "/objects/users/ada/gs/bucket/x");
  EXPECT_EQ(roots.Resolve("gs://bucket/x")->path(), "/objects/gs/bucket/x");
  EXPECT_EQ(roots.Resolve(base / "of-ada")->path(), base / "of-ada") << "this process's own user";
  for (const std::string location : {base / "of-bob/saved/x", base / "of-ada", base / "of-ada/savedx", base}) {
    const absl::Status status = roots.Resolve(location, "ada").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << location;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr((base / "of-ada/saved").string()));
  }
  EXPECT_EQ(Roots(base, "").Resolve(base / "x", "ada").status().code(), absl::StatusCode::kPermissionDenied)
      << "nobody has named a folder for users";
  EXPECT_EQ(Roots("", "", base).Resolve(base / "x", "ada")->path(), base / "x") << "all users share it";
  for (const std::string name : {"..", ".", ".ada", "a/b"}) {
    for (const std::string& location : {std::string("gs://bucket/x"), (base / "x").string()})
      EXPECT_EQ(roots.Resolve(location, name).status().code(), absl::StatusCode::kPermissionDenied) << name;
  }
  EXPECT_FALSE(Roots(base / "{user}", "").Resolve(base / "x").ok()) << "its own user has a folder too";
  // A link in the place of a user's folder is not followed.
  fs::create_directory_symlink(elsewhere.path(), base / "of-ada");
  EXPECT_EQ(WriteWholeFile(*roots.Resolve(base / "of-ada/saved", "ada"), "x", Bytes::Copy("mine")).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

TEST(FilesTest, PartsAreReadOfAFileOfTheRightSize) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteWholeFile(folder.root() / "a", "file", Bytes::Copy("0123456789")).ok());
  const absl::StatusOr<PartsOfFile> file = PartsOfFile::Open(folder.root() / "a", "file", 10);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string out(4, ' ');
  const auto bytes = absl::MakeSpan(reinterpret_cast<uint8_t*>(out.data()), out.size());
  EXPECT_TRUE(file->Read(3, bytes).ok());
  EXPECT_EQ(out, "3456");
  EXPECT_TRUE(file->Read(10, {}).ok());
  fs::resize_file(folder.path() / "a/file", 6);
  EXPECT_FALSE(file->Read(3, bytes).ok()) << "it became shorter";
  EXPECT_EQ(PartsOfFile::Open(folder.root() / "a", "file", 10).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(PartsOfFile::Open(folder.root() / "a", "none", 10).status().code(), absl::StatusCode::kNotFound);
}

TEST(FilesTest, AFileWithAHardLinkIsReplacedAndNotWrittenInto) {
  const TemporaryFolder folder, elsewhere;
  ASSERT_TRUE(WriteWholeFile(elsewhere.root(), "secret", Bytes::Copy("theirs")).ok());
  fs::create_hard_link(elsewhere.path() / "secret", folder.path() / "file");
  fs::create_hard_link(elsewhere.path() / "secret", folder.path() / "file.unfinished");
  EXPECT_TRUE(WriteWholeFile(folder.root(), "file", Bytes::Copy("mine")).ok());
  EXPECT_EQ(ReadWholeFile(folder.root(), "file", 100)->view(), "mine");
  EXPECT_EQ(ReadWholeFile(elsewhere.root(), "secret", 100)->view(), "theirs");
  EXPECT_THAT(*ListFolder(folder.root()), ElementsAre("file"));
}

// A client exchanges a folder for a link to another folder, again and again, while files are written and read below it.
TEST(FilesTest, ALinkThatIsPutInPlaceMeanwhileIsNotFollowed) {
  const TemporaryFolder folder, elsewhere;
  ASSERT_TRUE(WriteWholeFile(elsewhere.root(), "secret", Bytes::Copy("theirs")).ok());
  ASSERT_TRUE(WriteWholeFile(folder.root() / "a/b", "secret", Bytes::Copy("mine")).ok());
  fs::create_directories(folder.path() / "kept");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "kept/link");
  const std::string at = folder.path() / "a/b", link = folder.path() / "kept/link";
  std::atomic<bool> stop = false;
  int refused = 0, written = 0;
  {
    ThreadPool attacker("pw-attacker", 1);
    attacker.Post([&] {
      while (!stop) EXPECT_EQ(::renameat2(AT_FDCWD, at.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE), 0);
    });
    // Until both have been seen often, so that the two have raced.
    for (int i = 0; i < 100'000 && (refused < 50 || written < 50); ++i) {
      const absl::Status status = WriteWholeFile(folder.root() / "a/b", "new", Bytes::Copy("mine"));
      EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << status;
      ++(status.ok() ? written : refused);
      const absl::StatusOr<Bytes> read = ReadWholeFile(folder.root() / "a/b", "secret", 100);
      if (read.ok()) {
        EXPECT_EQ(read->view(), "mine");
      }
    }
    stop = true;
  }
  EXPECT_GE(refused, 50);
  EXPECT_GE(written, 50);
  EXPECT_THAT(*ListFolder(elsewhere.root()), ElementsAre("secret"));
  EXPECT_EQ(ReadWholeFile(elsewhere.root(), "secret", 100)->view(), "theirs");
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
