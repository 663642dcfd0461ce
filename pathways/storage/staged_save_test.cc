#include "pathways/storage/staged_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "absl/strings/match.h"
#include "pathways/base/thread_pool.h"
#include "pathways/storage/testing.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two arrays of two tiles each; `fill` is every element of both.
std::vector<NamedArray> TwoArrays() {
  const ZarrArray array{buffers::DType::kU8, {4}, {2}};
  return {{"x", array}, {"deep/y", array}};
}

absl::Status Stage(const StagedSave& save, char fill, HostId host = HostId(7)) {
  for (const NamedArray& array : TwoArrays()) {
    for (int64_t start : {0, 2}) {
      if (absl::Status status = save.WriteTile(array, {{start}, {2}}, Bytes::FromString(std::string(2, fill))); !status.ok()) return status;
    }
  }
  return save.AddHost(host);
}

absl::Status Save(const Folder& location, const std::string& id, char fill, std::function<void()> before_step = nullptr) {
  const StagedSave save(location, id, std::move(before_step));
  if (absl::Status status = Stage(save, fill); !status.ok()) return status;
  return save.Commit(TwoArrays(), {{HostId(7), "host 7"}});
}

// Returns the elements of an array; "none" if it does not exist, "broken" if a part of it is missing.
std::string Read(const Folder& location, const std::string& name) {
  const Folder folder = location / name;
  if (!fs::exists(folder.path())) return "none";
  const absl::StatusOr<Bytes> metadata = ReadWholeFile(folder, kZarrMetadataFile, 1000);
  if (!metadata.ok()) return "broken";
  const absl::StatusOr<Bytes> data = ReadZarrRegion(folder, TwoArrays()[0].array, {{0}, {4}});
  return data.ok() ? std::string(data->view().data(), data->view().size()) : "broken";
}

std::vector<std::string> Names(const Folder& folder) { return ListFolder(folder).value_or(std::vector<std::string>()); }

TEST(StagedSaveTest, ArraysAppearAtTheCommitAndNothingElseStays) {
  const TemporaryFolder folder;
  const Folder location = folder.root() / "checkpoint";
  const StagedSave save(location, "1");
  ASSERT_TRUE(Stage(save, 'a').ok());
  EXPECT_EQ(Read(location, "x"), "none");
  ASSERT_TRUE(save.Commit(TwoArrays(), {{HostId(7), "host 7"}}).ok());
  EXPECT_EQ(Read(location, "x"), "aaaa");
  EXPECT_EQ(Read(location, "deep/y"), "aaaa");
  EXPECT_THAT(Names(location), ElementsAre("deep", "x"));
  ASSERT_TRUE(Save(location, "2", 'b').ok());
  EXPECT_EQ(Read(location, "x"), "bbbb");
  EXPECT_THAT(Names(location), ElementsAre("deep", "x"));
}

TEST(StagedSaveTest, ASaveThatIsDroppedLeavesTheArraysAsTheyWere) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Save(folder.root(), "1", 'a').ok());
  const StagedSave save(folder.root(), "2");
  ASSERT_TRUE(Stage(save, 'b').ok());
  EXPECT_EQ(*save.Drop(), StagedSave::Dropped::kRemoved);
  EXPECT_EQ(*save.Drop(), StagedSave::Dropped::kAbsent);
  EXPECT_EQ(Read(folder.root(), "x"), "aaaa");
  EXPECT_THAT(Names(folder.root()), ElementsAre("deep", "x"));
  EXPECT_FALSE(save.Commit(TwoArrays(), {{HostId(7), "host 7"}}).ok()) << "its files are gone";
  EXPECT_EQ(Read(folder.root(), "x"), "aaaa");
}

TEST(StagedSaveTest, ThreadsOfAHostWriteAtTheSameTime) {
  const TemporaryFolder folder;
  const StagedSave save(folder.root() / "checkpoint", "1");
  const ZarrArray array{buffers::DType::kU8, {64}, {1}};
  std::atomic<int> failures = 0;
  {
    ThreadPool threads("pw-test", 4);
    for (int64_t i = 0; i < 64; ++i) {
      threads.Post([&, i] {
        const absl::Status written = save.WriteTile({"x", array}, {{i}, {1}}, Bytes::Copy("a"));
        if (!written.ok() || !save.AddHost(HostId(1)).ok()) ++failures;
      });
    }
  }
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(save.Commit({{"x", array}}, {{HostId(1), "host 1"}}).ok());
}

TEST(StagedSaveTest, AHostWhoseFilesAreNotThereIsNamed) {
  const TemporaryFolder folder;
  const StagedSave save(folder.root(), "1");
  ASSERT_TRUE(Stage(save, 'a', HostId(1)).ok());
  const absl::Status status = save.Commit(TwoArrays(), {{HostId(1), "host 'a0' of island 'a'"}, {HostId(2), "host 'b0' of island 'b'"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("host 'b0' of island 'b' has written its part"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder.path().string()));
  EXPECT_EQ(Read(folder.root(), "x"), "none");
}

TEST(StagedSaveTest, AMissingChunkIsNotCommitted) {
  const TemporaryFolder folder;
  const StagedSave save(folder.root(), "1");
  ASSERT_TRUE(save.WriteTile(TwoArrays()[0], {{0}, {2}}, Bytes::Copy("aa")).ok());
  ASSERT_TRUE(save.AddHost(HostId(7)).ok());
  const absl::Status status = save.Commit({TwoArrays()[0]}, {{HostId(7), "host 7"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("x/1"));
  EXPECT_EQ(Read(folder.root(), "x"), "none");
}

TEST(StagedSaveTest, NamesOutsideOfTheLocationAreRefused) {
  const TemporaryFolder folder;
  const ZarrArray array{buffers::DType::kU8, {2}, {2}};
  for (const char* name : {"", "/x", "../x", "a/../../x", "a/./b", "a//b", "a/", ".pathways-save-2/arrays/x"}) {
    const NamedArray named{name, array};
    if (std::string(name) == "a//b") continue;  // one slash, for the file system and for us
    EXPECT_EQ(StagedSave(folder.root(), "1").WriteTile(named, {{0}, {2}}, Bytes::Copy("aa")).code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(StagedSave(folder.root(), "../1").AddHost(HostId(1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Names(folder.root()).empty());
}

TEST(StagedSaveTest, LinksInThePlaceOfAnArrayAreReplacedAndNotFollowed) {
  const TemporaryFolder folder, elsewhere;
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "x");
  ASSERT_TRUE(Save(folder.root(), "1", 'a').ok());
  EXPECT_EQ(Read(folder.root(), "x"), "aaaa");
  EXPECT_FALSE(fs::is_symlink(folder.path() / "x"));
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
  fs::create_directory_symlink(elsewhere.path(), folder.path() / ".pathways-save-2");
  EXPECT_EQ(Stage(StagedSave(folder.root(), "2"), 'b').code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

TEST(StagedSaveTest, SavesOfADayAgoThatNobodyCommittedAreRemoved) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Stage(StagedSave(folder.root(), "old"), 'o').ok());
  ASSERT_TRUE(Stage(StagedSave(folder.root(), "new"), 'n').ok());
  fs::last_write_time(folder.path() / ".pathways-save-old", fs::file_time_type::clock::now() - std::chrono::hours(25));
  ASSERT_TRUE(Save(folder.root(), "1", 'a').ok());
  EXPECT_THAT(Names(folder.root()), ElementsAre(".pathways-save-new", "deep", "x"));
}

TEST(StagedSaveTest, AFolderWithMoreThanAnArrayIsNotReplaced) {
  const TemporaryFolder folder;
  ASSERT_TRUE(Save(folder.root(), "1", 'a').ok());
  const ZarrArray array{buffers::DType::kU8, {2}, {2}};
  const StagedSave save(folder.root(), "2");
  ASSERT_TRUE(save.WriteTile({"deep", array}, {{0}, {2}}, Bytes::Copy("bb")).ok());
  ASSERT_TRUE(save.AddHost(HostId(7)).ok());
  const absl::Status status = save.Commit({{"deep", array}}, {{HostId(7), "host 7"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has the folder 'y' in it"));
  EXPECT_EQ(Read(folder.root(), "deep/y"), "aaaa");
}

// Runs `work` in a process of its own, which is killed before its step number `last`. Returns whether it was killed.
bool Killed(int last, const std::function<void(std::function<void()> before_step)>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int step = 0;
    work([&] {
      if (step++ == last) ::kill(::getpid(), SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status);
}

class KilledTest : public ::testing::TestWithParam<bool> {};

// Whatever the moment, each array is whole; and after Complete, both are of the same save.
TEST_P(KilledTest, AProcessThatIsKilledAtAnyStepLeavesTheArraysWhole) {
  int killed = 0, committed = 0;
  for (int last = 0;; ++last) {
    const TemporaryFolder folder;
    const std::string before = GetParam() ? "aaaa" : "none";
    if (GetParam()) {
      ASSERT_TRUE(Save(folder.root(), "1", 'a').ok());
    }
    const bool was_killed = Killed(last, [&](std::function<void()> before_step) {
      (void)Save(folder.root(), "2", 'b', std::move(before_step));
    });
    for (const char* name : {"x", "deep/y"}) EXPECT_THAT(Read(folder.root(), name), ::testing::AnyOf(before, "bbbb")) << last;
    ASSERT_TRUE(StagedSave::Complete(folder.root()).ok()) << last;
    EXPECT_EQ(Read(folder.root(), "x"), Read(folder.root(), "deep/y")) << last;
    committed += Read(folder.root(), "x") == "bbbb" ? 1 : 0;
    if (!was_killed) break;
    ++killed;
    // The next save goes through, with nothing of this one in the way.
    ASSERT_TRUE(Save(folder.root(), "3", 'c').ok()) << last;
    EXPECT_EQ(Read(folder.root(), "x"), "cccc") << last;
    ASSERT_TRUE(StagedSave::Complete(folder.root()).ok()) << last;
    EXPECT_EQ(Read(folder.root(), "x"), "cccc") << last;
  }
  EXPECT_GT(committed, 5);
  EXPECT_GT(killed - committed, 5);
}

TEST(StagedSaveTest, ADropTellsWhetherTheSaveWasCommitted) {
  for (int last = 0;; ++last) {
    const TemporaryFolder folder;
    const bool was_killed = Killed(last, [&](std::function<void()> before_step) {
      (void)Save(folder.root(), "2", 'b', std::move(before_step));
    });
    const absl::StatusOr<StagedSave::Dropped> dropped = StagedSave(folder.root(), "2").Drop();
    ASSERT_TRUE(dropped.ok()) << dropped.status();
    if (*dropped == StagedSave::Dropped::kRemoved) {
      EXPECT_EQ(Read(folder.root(), "x"), "none") << last;
    } else if (*dropped == StagedSave::Dropped::kCompleted || (*dropped == StagedSave::Dropped::kAbsent && last > 0)) {
      EXPECT_EQ(Read(folder.root(), "x"), "bbbb") << last;
    }
    for (const std::string& name : Names(folder.root())) EXPECT_FALSE(absl::StartsWith(name, ".")) << last;
    if (!was_killed) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, KilledTest, ::testing::Bool(), [](const auto& info) { return info.param ? "AnOlderSave" : "Nothing"; });

}  // namespace
}  // namespace pw::storage
