// Saves and loads: which hosts get which commands, and what the client hears when something fails.
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two hosts of two devices, an array of rows over all, and one that all devices have.
class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    t.Open();
    EXPECT_TRUE(t.Put(1, TestCluster::Rows(0, 4, {4, 2}), "aabbccdd").ok());
    EXPECT_TRUE(t.Put(2, {buffers::DType::kU8, {4}, buffers::Sharding::Replicated(TestCluster::Devices(0, 4), "")}, "wxyz").ok());
    t.Run();
  }
  void Save(std::vector<Handle> arrays) {
    outcome.reset();
    session::SaveRequest request{"/checkpoint", {}};
    for (Handle array : arrays) request.arrays.push_back({absl::StrCat("a", array), array});
    t.session->SaveArrays(std::move(request), [this](absl::Status status) { outcome = status; });
    EXPECT_FALSE(outcome.has_value()) << "a callback ran inside the call";
    t.Run();
  }
  absl::Status Load(Handle result, const buffers::ArraySpec& spec) {
    return t.AwaitStatus([&](auto done) { t.session->LoadArrays({"/checkpoint", {{"a1", result, spec}}}, std::move(done)); });
  }
  const Command* Last(int worker, Command::KindCase kind) const {
    const Command* last = nullptr;
    for (const Command& command : t.workers[worker]->log) {
      if (command.kind_case() == kind) last = &command;
    }
    return last;
  }
  int Count(int worker, Command::KindCase kind) const { return t.workers[worker]->Count(kind); }

  TestCluster t{2, 2};
  std::optional<absl::Status> outcome;
};

TEST_F(FilesTest, HostsWriteAndOneOfThemCommits) {
  t.workers[1]->hold_done = true;
  Save({1, 2});
  EXPECT_EQ(Count(0, Command::kSaveTiles) + Count(1, Command::kSaveTiles), 3) << "one of them writes the replicated array";
  EXPECT_EQ(Count(0, Command::kCommitSave), 0) << "the other host has not written";
  EXPECT_FALSE(outcome.has_value());
  t.workers[1]->hold_done = false;
  t.workers[1]->ReleaseDone();
  t.Run();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->ok()) << *outcome;
  ASSERT_EQ(Count(0, Command::kCommitSave) + Count(1, Command::kCommitSave), 1);
  const auto& commit = Last(0, Command::kCommitSave)->commit_save();
  EXPECT_THAT(commit.arrays(), SizeIs(2));
  EXPECT_THAT(commit.writers(), SizeIs(2));
  EXPECT_EQ(commit.writers(1).name(), "host 'w1' of island 'i1'");
  EXPECT_EQ(commit.save(), Last(1, Command::kSaveTiles)->save_tiles().save());
  EXPECT_EQ(Count(0, Command::kDropSave) + Count(1, Command::kDropSave), 0);
}

TEST_F(FilesTest, TwoSavesHaveDifferentNames) {
  Save({1});
  const std::string first = Last(0, Command::kSaveTiles)->save_tiles().save();
  Save({1});
  EXPECT_NE(first, Last(0, Command::kSaveTiles)->save_tiles().save());
}

TEST_F(FilesTest, AHostThatCannotWriteFailsTheSaveAndAllDropIt) {
  t.workers[1]->file_errors[Command::kSaveTiles] =
      absl::PermissionDeniedError("host 'w1' of island 'i1': clients may not use /checkpoint");
  Save({1});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(outcome->message()),
              HasSubstr("nothing was saved to /checkpoint, where earlier saves are unchanged: host 'w1'"));
  for (int worker : {0, 1}) {
    EXPECT_EQ(Count(worker, Command::kCommitSave), 0);
    EXPECT_EQ(Count(worker, Command::kDropSave), 1);
  }
  EXPECT_EQ(*t.FetchRows(1), "aabbccdd") << "the arrays are untouched";
}

TEST_F(FilesTest, AnErrorOfAnArrayIsTheOutcome) {
  EXPECT_TRUE(t.session->MakeErrorArray(3, TestCluster::Single(0, {4}), absl::DataLossError("it broke")).ok());
  Save({1, 3});
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Count(0, Command::kSaveTiles), 0);
  outcome.reset();
  Save({1, 99});
  EXPECT_EQ(outcome->code(), absl::StatusCode::kNotFound);
}

TEST_F(FilesTest, AHostThatIsLostWhileItWritesFailsTheSave) {
  t.workers[1]->hold_done = true;
  Save({1});
  t.workers[1]->Die();
  t.Run();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_FALSE(outcome->ok());
  EXPECT_THAT(std::string(outcome->message()), HasSubstr("w1"));
  EXPECT_EQ(Count(0, Command::kCommitSave), 0);
  EXPECT_EQ(Count(0, Command::kDropSave), 1);
}

// The other host looks on the disk whether the save was committed.
TEST_F(FilesTest, WhenTheHostThatCommitsIsLostTheDiskDecides) {
  const std::pair<absl::Status, bool> cases[] = {{absl::OkStatus(), false},
                                                 {absl::AlreadyExistsError("committed"), true},
                                                 {absl::NotFoundError("nothing is there"), true},
                                                 {absl::UnknownError("remains"), false}};
  for (const auto& [found, committed] : cases) {
    TestCluster cluster(2, 2);
    cluster.Open();
    ASSERT_TRUE(cluster.Put(1, TestCluster::Rows(0, 4, {4, 2}), "aabbccdd").ok());
    cluster.Run();
    std::optional<absl::Status> result;
    cluster.session->SaveArrays({"/checkpoint", {{"x", 1}}}, [&](absl::Status status) { result = status; });
    cluster.workers[1]->file_errors[Command::kDropSave] = found;
    cluster.workers[1]->hold_done = true;
    cluster.Run();
    cluster.workers[0]->hold_done = true;  // it commits, but its report does not arrive
    cluster.workers[1]->hold_done = false;
    cluster.workers[1]->ReleaseDone();
    cluster.Run();
    ASSERT_EQ(cluster.workers[0]->Count(Command::kCommitSave), 1);
    ASSERT_FALSE(result.has_value());
    cluster.workers[0]->Die();
    cluster.Run();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->ok(), committed) << *result;
    EXPECT_EQ(cluster.workers[1]->Count(Command::kDropSave), 1);
    if (committed) continue;
    EXPECT_THAT(std::string(result->message()), HasSubstr(found.ok() ? "nothing was saved" : "it is not known"));
  }
}

TEST_F(FilesTest, ASessionThatEndsCommitsNothing) {
  t.workers[1]->hold_done = true;
  Save({1});
  t.session = nullptr;
  t.Run();
  t.workers[1]->hold_done = false;
  t.workers[1]->ReleaseDone();
  t.Run();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Count(0, Command::kCommitSave), 0);
  EXPECT_EQ(Count(0, Command::kDropSave), 1);
  EXPECT_EQ(Count(1, Command::kDropSave), 1);
}

TEST_F(FilesTest, RefusesWhatMakesNoSense) {
  t.session->SaveArrays({"/checkpoint", {{"x", 1}, {"x", 2}}}, [this](absl::Status status) { outcome = status; });
  t.Run();
  EXPECT_EQ(outcome->code(), absl::StatusCode::kInvalidArgument);
  outcome.reset();
  t.session->SaveArrays({"/checkpoint", {}}, [this](absl::Status status) { outcome = status; });
  t.Run();
  EXPECT_TRUE(outcome->ok());
  outcome.reset();
  t.session->SaveArrays({std::string(5000, 'x'), {{"x", 1}}}, [this](absl::Status status) { outcome = status; });
  t.Run();
  EXPECT_EQ(outcome->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Load(1, TestCluster::Single(0, {4})).ok()) << "the handle is in use";
  EXPECT_EQ(Load(50, TestCluster::Single(77, {4})).code(), absl::StatusCode::kInvalidArgument) << "there is no such device";
  EXPECT_FALSE(t.Ready({50}).ok()) << "the result holds the error";
}

TEST_F(FilesTest, HostsLearnWhoseFilesTheyAre) {
  auto opened = t.Await<std::shared_ptr<Session>>(
      [&](auto done) { t.cluster->OpenSession({"of ada", {}, false, "ada"}, std::move(done)); });
  ASSERT_TRUE(opened.ok()) << opened.status();
  t.session = *opened;
  ASSERT_TRUE(t.Put(1, TestCluster::Rows(0, 4, {4, 2}), "aabbccdd").ok());
  t.Run();
  Save({1});
  EXPECT_TRUE(outcome->ok()) << *outcome;
  EXPECT_EQ(Last(0, Command::kSaveTiles)->save_tiles().user(), "ada");
  EXPECT_EQ(Last(0, Command::kCommitSave)->commit_save().user(), "ada");
  t.workers[1]->file_errors[Command::kSaveTiles] = absl::UnavailableError("the disk is full");
  Save({1});
  EXPECT_FALSE(outcome->ok());
  EXPECT_EQ(Last(0, Command::kDropSave)->drop_save().user(), "ada");
  EXPECT_TRUE(Load(10, TestCluster::Rows(0, 4, {4, 2})).ok());
  EXPECT_EQ(Last(1, Command::kLoadTiles)->load_tiles().user(), "ada");
}

TEST_F(FilesTest, EachHostReadsItsOwnTiles) {
  EXPECT_TRUE(Load(10, TestCluster::Rows(0, 4, {4, 2})).ok());
  EXPECT_EQ(Last(0, Command::kLoadTiles)->load_tiles().tiles_size(), 2);
  EXPECT_EQ(Last(1, Command::kLoadTiles)->load_tiles().tiles_size(), 2);
  EXPECT_EQ(*t.FetchRows(10), std::string(8, 7));
  EXPECT_TRUE(Load(11, {buffers::DType::kU8, {4}, buffers::Sharding::Replicated(TestCluster::Devices(0, 4), "")}).ok());
  EXPECT_EQ(Last(1, Command::kLoadTiles)->load_tiles().tiles_size(), 1) << "once for both of its devices";
}

TEST_F(FilesTest, AHostThatCannotReadMakesTheArrayAnError) {
  t.workers[1]->file_errors[Command::kLoadTiles] =
      absl::NotFoundError("host 'w1' of island 'i1': cannot read /checkpoint/a1/.zarray");
  const absl::Status status = Load(10, TestCluster::Rows(0, 4, {4, 2}));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("host 'w1'"));
  EXPECT_EQ(t.Ready({10}).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Load(11, TestCluster::Single(0, {4})).ok()) << "the other host can";
}

}  // namespace
}  // namespace pw::controller
