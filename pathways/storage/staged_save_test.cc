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
#include "absl/strings/str_cat.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/storage/testing.h"

namespace pw::storage {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

// Two arrays of two tiles each; `fill` is every element of both.
std::vector<NamedArray> TwoArrays() {
  const ZarrArray array{buffers::DType::kU8, {4}, {2}};
  return {{"x", array}, {"deep/y", array}};
}

absl::Status Stage(const StagedSave& save, char fill, HostId host = HostId(7)) {
  for (const NamedArray& array : TwoArrays()) {
    for (int64_t start : {0, 2}) {
      if (absl::Status status = save.WriteTile(array, {{start}, {2}}, Bytes::FromString(std::string(2, fill))); !status.ok())
        return status;
    }
  }
  return save.AddHost(host);
}

absl::Status Save(const Folder& location, const std::string& id, char fill, const StagedSave::ForTests& for_tests = {}) {
  const StagedSave save(location, id, for_tests);
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

// The threads of two hosts race, in many orders. The arrays of one save never mix with those of another.
TEST(StagedSaveTest, OfSavesAtTheSameTimeOneStaysWhole) {
  const TemporaryFolder folder;
  std::atomic<int> failures = 0;
  for (int round = 0; round < 12; ++round) {
    {
      ThreadPool threads("pw-test", 4);
      for (int i = 0; i < 4; ++i) {
        threads.Post(
            [&, i] { failures += Save(folder.root(), absl::StrCat(round, "n", i), static_cast<char>('a' + i)).ok() ? 0 : 1; });
        threads.Post([&] { failures += StagedSave::Complete(folder.root()).ok() ? 0 : 1; });
      }
    }
    ASSERT_THAT(Read(folder.root(), "x"), ::testing::AnyOf("aaaa", "bbbb", "cccc", "dddd"));
    ASSERT_EQ(Read(folder.root(), "x"), Read(folder.root(), "deep/y"));
    ASSERT_THAT(Names(folder.root()), ElementsAre("deep", "x"));
  }
  EXPECT_EQ(failures, 0);
}

TEST(StagedSaveTest, AHostWhoseFilesAreNotThereIsNamed) {
  const TemporaryFolder folder;
  const StagedSave save(folder.root(), "1");
  ASSERT_TRUE(Stage(save, 'a', HostId(1)).ok());
  const absl::Status status =
      save.Commit(TwoArrays(), {{HostId(1), "host 'a0' of island 'a'"}, {HostId(2), "host 'b0' of island 'b'"}});
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
    EXPECT_EQ(StagedSave(folder.root(), "1").WriteTile(named, {{0}, {2}}, Bytes::Copy("aa")).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
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

// On a local file system, and on one that cannot exchange two folders in one step (NFS).
class KilledTest : public ::testing::TestWithParam<bool> {
 protected:
  StagedSave::ForTests ForTests(std::function<void()> before_step = nullptr) const {
    return {std::move(before_step), GetParam()};
  }
  // Kills the process of a save at each of its steps in turn, and calls `check` with the folder and the number of the step. Returns the number of
  // steps.
  int KillAtEachStep(bool over_an_older_save, const std::function<void(const Folder&, int step)>& check) const {
    for (int last = 0;; ++last) {
      const TemporaryFolder folder;
      if (over_an_older_save) {
        EXPECT_TRUE(Save(folder.root(), "1", 'a').ok());
      }
      const bool was_killed = Killed(last, [&](std::function<void()> before_step) {
        (void)Save(folder.root(), "2", 'b', ForTests(std::move(before_step)));
      });
      check(folder.root(), last);
      if (!was_killed || HasFatalFailure()) return last;
    }
  }
};

TEST_P(KilledTest, ASaveThatIsKilledAtAnyStepHasHappenedOrNot) {
  int committed = 0;
  const int steps = KillAtEachStep(false, [&](const Folder& location, int step) {
    for (const char* name : {"x", "deep/y"}) EXPECT_THAT(Read(location, name), ::testing::AnyOf("none", "bbbb")) << step;
    ASSERT_TRUE(StagedSave::Complete(location, ForTests()).ok()) << step;
    EXPECT_EQ(Read(location, "x"), Read(location, "deep/y")) << step;
    committed += Read(location, "x") == "bbbb" ? 1 : 0;
  });
  EXPECT_GT(committed, 5);
  EXPECT_GT(steps - committed, 5);
}

TEST_P(KilledTest, ASaveOverAnOlderOneThatIsKilledAtAnyStepLeavesTheArraysOfOneOfThem) {
  int committed = 0, absent = 0;
  const int steps = KillAtEachStep(true, [&](const Folder& location, int step) {
    for (const char* name : {"x", "deep/y"}) {
      const std::string contents = Read(location, name);
      EXPECT_THAT(contents, ::testing::AnyOf("aaaa", "bbbb", "none")) << step;
      absent += contents == "none" ? 1 : 0;
    }
    ASSERT_TRUE(StagedSave::Complete(location, ForTests()).ok()) << step;
    EXPECT_THAT(Read(location, "x"), ::testing::AnyOf("aaaa", "bbbb")) << step;
    EXPECT_EQ(Read(location, "x"), Read(location, "deep/y")) << step;
    committed += Read(location, "x") == "bbbb" ? 1 : 0;
    // The next save goes through, with nothing of this one in the way.
    ASSERT_TRUE(Save(location, "3", 'c', ForTests()).ok()) << step;
    EXPECT_EQ(Read(location, "x"), "cccc") << step;
    ASSERT_TRUE(StagedSave::Complete(location, ForTests()).ok()) << step;
    EXPECT_EQ(Read(location, "x"), "cccc") << step;
  });
  EXPECT_GT(committed, 5);
  EXPECT_GT(steps - committed, 5);
  EXPECT_EQ(absent, GetParam() ? 0 : 2) << "only where folders cannot be exchanged, one moment for each array";
}

TEST_P(KilledTest, ADropTellsWhetherTheSaveWasCommitted) {
  KillAtEachStep(false, [&](const Folder& location, int step) {
    const absl::StatusOr<StagedSave::Dropped> dropped = StagedSave(location, "2", ForTests()).Drop();
    ASSERT_TRUE(dropped.ok()) << dropped.status();
    if (*dropped == StagedSave::Dropped::kRemoved) {
      EXPECT_EQ(Read(location, "x"), "none") << step;
    } else if (*dropped == StagedSave::Dropped::kCompleted || (*dropped == StagedSave::Dropped::kAbsent && step > 0)) {
      EXPECT_EQ(Read(location, "x"), "bbbb") << step;
    }
    for (const std::string& name : Names(location)) EXPECT_FALSE(absl::StartsWith(name, ".")) << step;
  });
}

// The process that completes a save may be killed as well.
TEST_P(KilledTest, ACompletionThatIsKilledAtAnyStepIsCompletedByTheNext) {
  KillAtEachStep(true, [&](const Folder& location, int step) {
    for (int last = 0;; ++last) {
      const bool was_killed = Killed(last, [&](std::function<void()> before_step) {
        (void)StagedSave::Complete(location, ForTests(std::move(before_step)));
      });
      if (!was_killed) break;
    }
    EXPECT_EQ(Read(location, "x"), Read(location, "deep/y")) << step;
    EXPECT_THAT(Read(location, "x"), ::testing::AnyOf("aaaa", "bbbb")) << step;
  });
}

INSTANTIATE_TEST_SUITE_P(Folders, KilledTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Exchanged" : "NotExchanged"; });

}  // namespace
}  // namespace pw::storage
