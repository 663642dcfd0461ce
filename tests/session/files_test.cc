// Tests arrays in files with a client, the controller and workers with a disk, in one process. Only hosts see the bytes of files.
// The arrays on the disk are those of one save, whichever process ends and whenever it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "pathways/storage/testing.h"
#include "pathways/storage/zarr.h"
#include "tests/session/lane_cluster.h"

namespace pw::session {
namespace {

namespace fs = std::filesystem;
using controller::TestCluster;
using storage::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kArrayBytes = 1 << 16;

class FilesTest : public ::testing::Test {
 protected:
  std::string location() const { return folder_.path() / "checkpoint"; }
  storage::Folder place() const { return folder_.root() / "checkpoint"; }
  std::vector<storage::Roots> Shared() const { return {storage::Roots(folder_.path(), ""), storage::Roots(folder_.path(), "")}; }
  std::unique_ptr<LaneCluster> Start() const {
    auto t = std::make_unique<LaneCluster>(2, 2, worker::Limits(), Shared());
    EXPECT_TRUE(t->ConnectWithLanes().ok());
    return t;
  }
  static buffers::ArraySpec Rows() { return TestCluster::Rows(0, 4, {4, kArrayBytes / 4}); }

  // Puts two arrays of this text as handles 1 and 2, and waits for them.
  static void PutTwo(LaneCluster& t, const std::string& text) {
    for (Handle handle : {1, 2}) EXPECT_TRUE(t.Put(handle, Rows(), text).ok());
    EXPECT_TRUE(t.Ready({1, 2}).ok());
  }
  std::shared_ptr<std::optional<absl::Status>> StartSave(LaneCluster& t) const {
    auto outcome = std::make_shared<std::optional<absl::Status>>();
    t.session->SaveArrays({location(), {{"x", 1}, {"y", 2}}}, [outcome](absl::Status status) { *outcome = status; });
    return outcome;
  }
  void SaveTwo(const std::string& text) const {
    auto t = Start();
    PutTwo(*t, text);
    auto outcome = StartSave(*t);
    t->Run();
    ASSERT_TRUE(outcome->has_value());
    ASSERT_TRUE((*outcome)->ok()) << **outcome;
  }
  static absl::Status Load(LaneCluster& t, const std::string& location, const std::string& name, Handle result,
                           const buffers::ArraySpec& spec) {
    return t.AwaitStatus([&](auto done) { t.session->LoadArrays({location, {{name, result, spec}}}, std::move(done)); });
  }
  // The contents of an array on the disk.
  std::string OnDisk(const std::string& name) const {
    const auto data = storage::ReadZarrRegion(place() / name, {buffers::DType::kU8, {4, kArrayBytes / 4}, {1, kArrayBytes / 4}},
                                              {{0, 0}, {4, kArrayBytes / 4}});
    return data.ok() ? std::string(data->view()) : std::string(data.status().message());
  }

  // Returns a cluster that is about to replace the arrays of an earlier save.
  std::unique_ptr<LaneCluster> StartOver() const {
    fs::remove_all(location());
    SaveTwo(kBefore);
    auto t = Start();
    PutTwo(*t, kAfter);
    return t;
  }

  const std::string kBefore = LaneCluster::Pattern(kArrayBytes, 1), kAfter = LaneCluster::Pattern(kArrayBytes, 2);
  const TemporaryFolder folder_;
};

TEST_F(FilesTest, NoByteOfAnArrayPassesTheControllerOrTheClient) {
  auto t = Start();
  const std::string text = LaneCluster::Pattern(kArrayBytes);
  PutTwo(*t, text);
  const int64_t sent = t->remote->array_bytes();
  EXPECT_EQ(sent, 2 * kArrayBytes);
  const uint64_t before = t->network.totals().bytes_sent;
  auto outcome = StartSave(*t);
  t->Run();
  ASSERT_TRUE(outcome->has_value());
  EXPECT_TRUE((*outcome)->ok()) << **outcome;
  const buffers::ArraySpec columns{buffers::DType::kU8,
                                   {4, kArrayBytes / 4},
                                   *buffers::Sharding::Tiled(TestCluster::Devices(0, 4), "", {{1, 4}, {3, 2, 1, 0}})};
  EXPECT_TRUE(Load(*t, location(), "x", 10, columns).ok());
  EXPECT_EQ(t->remote->array_bytes(), sent);
  EXPECT_EQ(t->BytesThroughController(), 0);
  EXPECT_LT(t->network.totals().bytes_sent - before, 10'000) << "of all connections together";
  EXPECT_THAT(*storage::ListFolder(place()), ElementsAre("x", "y"));
  EXPECT_EQ(OnDisk("x"), text);
  EXPECT_EQ(OnDisk("y"), text);
  // Read it back as rows.
  ASSERT_TRUE(t->session->Reshard({{11}}, {{10}}, std::vector<buffers::ArraySpec>{Rows()}, CopySemantics::kAlwaysCopy).ok());
  EXPECT_EQ(*t->FetchRows(11), text);
}

TEST_F(FilesTest, HostsThatDoNotShareTheFilesAreNamed) {
  const TemporaryFolder other;
  LaneCluster t(2, 2, {}, {storage::Roots("", folder_.path()), storage::Roots("", other.path())});
  ASSERT_TRUE(t.ConnectWithLanes().ok());
  PutTwo(t, LaneCluster::Pattern(kArrayBytes));
  const absl::Status status =
      t.AwaitStatus([&](auto done) { t.session->SaveArrays({"gs://bucket/checkpoint", {{"x", 1}}}, std::move(done)); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("host 'h1' of island 'i1' has written its part"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("gs/bucket/checkpoint"));
  for (const TemporaryFolder* each : {&folder_, &other})
    EXPECT_THAT(*storage::ListFolder(each->root() / "gs/bucket/checkpoint"), IsEmpty());
  // The first host alone can save and load there; the second sees nothing.
  ASSERT_TRUE(t.Put(5, TestCluster::Single(0, {4}), "abcd").ok());
  EXPECT_TRUE(
      t.AwaitStatus([&](auto done) { t.session->SaveArrays({"gs://bucket/checkpoint", {{"z", 5}}}, std::move(done)); }).ok());
  EXPECT_TRUE(Load(t, "gs://bucket/checkpoint", "z", 20, TestCluster::Single(1, {4})).ok());
  EXPECT_EQ(*t.Fetch(20), "abcd");
  const absl::Status loaded = Load(t, "gs://bucket/checkpoint", "z", 21, TestCluster::Rows(1, 2, {4}));
  EXPECT_EQ(loaded.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(loaded.message()), HasSubstr("host 'h1' of island 'i1': cannot read"));
  EXPECT_THAT(std::string(loaded.message()), HasSubstr("they do not share this file system"));
  EXPECT_EQ(t.Ready({21}).code(), absl::StatusCode::kNotFound) << "the array is the error";
}

// Counts the saves that had taken effect, and those that had not, when a process ended during them.
struct Outcomes {
  int saved = 0;
  int failed = 0;
};

// Repeats a save, and calls `end` after 0, 1, 2, ... of its turns. Then lets everything settle and calls `check`.
Outcomes EndAtEveryMoment(const std::function<std::unique_ptr<LaneCluster>()>& start,
                          const std::function<std::shared_ptr<std::optional<absl::Status>>(LaneCluster&)>& save,
                          const std::function<void(LaneCluster&)>& end,
                          const std::function<void(const std::optional<absl::Status>&, int)>& check) {
  Outcomes outcomes;
  for (int turns = 0;; ++turns) {
    auto t = start();
    auto outcome = save(*t);
    int done = 0;
    while (done < turns && t->executor.RunOne()) ++done;
    end(*t);
    t->Run();
    t->timers.Advance(absl::Minutes(2));
    check(*outcome, turns);
    outcome->has_value() && (*outcome)->ok() ? ++outcomes.saved : ++outcomes.failed;
    if (done < turns || ::testing::Test::HasFailure()) return outcomes;
  }
}

TEST_F(FilesTest, AHostThatIsLostAtAnyMomentLeavesTheArraysOfOneSave) {
  for (int victim : {0, 1}) {
    const Outcomes outcomes =
        EndAtEveryMoment([this] { return StartOver(); }, [this](LaneCluster& t) { return StartSave(t); },
                         [victim](LaneCluster& t) { t.hosts[victim]->Die(); },
                         [this](const std::optional<absl::Status>& outcome, int turns) {
                           ASSERT_TRUE(outcome.has_value()) << turns;
                           for (const char* name : {"x", "y"})
                             EXPECT_TRUE(OnDisk(name) == (outcome->ok() ? kAfter : kBefore)) << turns << ": " << *outcome;
                           EXPECT_THAT(*storage::ListFolder(place()), ElementsAre("x", "y")) << turns << ": nothing else stays";
                         });
    EXPECT_GT(outcomes.saved, 0) << victim;
    EXPECT_GT(outcomes.failed, 5) << victim;
  }
}

TEST_F(FilesTest, AClientThatIsGoneAtAnyMomentLeavesTheArraysOfOneSave) {
  const Outcomes outcomes = EndAtEveryMoment([this] { return StartOver(); }, [this](LaneCluster& t) { return StartSave(t); },
                                             [](LaneCluster& t) {
                                               t.session = nullptr;
                                               t.remote = nullptr;
                                             },
                                             [this](const std::optional<absl::Status>&, int turns) {
                                               EXPECT_TRUE(OnDisk("x") == kBefore || OnDisk("x") == kAfter) << turns;
                                               EXPECT_TRUE(OnDisk("x") == OnDisk("y")) << turns;
                                               EXPECT_THAT(*storage::ListFolder(place()), ElementsAre("x", "y")) << turns;
                                             });
  EXPECT_GT(outcomes.failed, 5);
}

}  // namespace
}  // namespace pw::session
