#include "pathways/worker/files/array_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/storage/testing.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ArrayFilesTest : public ::testing::Test {
 protected:
  ArrayFilesTest() { Start(); }
  void Start(int64_t file_bytes = 1 << 20, int64_t device_bytes = 0) {
    WorkerHarness::Setup setup;
    setup.client_files = storage::Roots(folder_.path(), "");
    setup.limits.file_bytes = file_bytes;
    setup.limits.device_memory_bytes = device_bytes;
    harness_ = nullptr;
    harness_ = std::make_unique<WorkerHarness>(setup);
  }
  WorkerHarness& w() { return *harness_; }
  std::string location() const { return folder_.path() / "checkpoint"; }

  // An array f32[elements] in tiles of `chunk`.
  static void Describe(int64_t elements, int64_t chunk, v1::StoredArray* stored) {
    stored->set_name("x");
    stored->set_dtype(static_cast<int>(buffers::DType::kF32));
    stored->add_dims(elements);
    if (chunk > 0) stored->add_chunks(chunk);
  }
  // Saves shard 0 of `array` as the tile from `start` on.
  void Save(uint64_t op, uint64_t array, int64_t elements, int64_t chunk, int64_t start, uint64_t session = 1) {
    v1::Command command;
    auto& save = *command.mutable_save_tiles();
    save.set_op(op);
    save.set_session(session);
    save.set_save("s1");
    save.set_location(location());
    Describe(elements, chunk, save.mutable_stored());
    save.set_array(array);
    save.add_tiles()->add_start(start);
    save.set_host("host 'h'");
    w().Do(command);
  }
  void Commit(uint64_t op, int64_t elements, int64_t chunk, std::vector<uint32_t> writers = {1}) {
    v1::Command command;
    auto& commit = *command.mutable_commit_save();
    commit.set_op(op);
    commit.set_save("s1");
    commit.set_location(location());
    commit.set_host("host 'h'");
    Describe(elements, chunk, commit.add_arrays());
    for (uint32_t host : writers) {
      auto& writer = *commit.add_writers();
      writer.set_host(host);
      writer.set_name(absl::StrCat("host ", host));
    }
    w().Do(command);
  }
  void Drop(uint64_t op) {
    v1::Command command;
    command.mutable_drop_save()->set_op(op);
    command.mutable_drop_save()->set_save("s1");
    command.mutable_drop_save()->set_location(location());
    w().Do(command);
  }
  // Loads these elements to both devices, as shards 0 and 1.
  void Load(uint64_t op, uint64_t array, int64_t elements, int64_t start, int64_t size, uint64_t session = 1) {
    v1::Command command;
    auto& load = *command.mutable_load_tiles();
    load.set_op(op);
    load.set_session(session);
    load.set_location(location());
    Describe(elements, 0, load.mutable_stored());
    load.set_array(array);
    load.set_host("host 'h'");
    auto& tile = *load.add_tiles();
    tile.mutable_region()->add_start(start);
    tile.mutable_region()->add_size(size);
    for (int d : {0, 1}) {
      tile.add_placements()->set_shard(d);
      tile.mutable_placements(d)->set_local_device(d);
    }
    w().Do(command);
  }
  absl::Status Outcome(uint64_t op) {
    w().Settle();
    const auto found = w().connection.done.find(op);
    return found == w().connection.done.end() ? absl::UnavailableError("not done") : found->second;
  }
  // Saves and commits 1, 2, 3, 4 in two tiles.
  void SaveFour() {
    w().Put(1, 100, {1, 2});
    w().Put(2, 101, {3, 4});
    Save(3, 100, 4, 2, 0);
    Save(4, 101, 4, 2, 2);
    EXPECT_TRUE(Outcome(3).ok() && Outcome(4).ok());
    Commit(5, 4, 2);
    EXPECT_TRUE(Outcome(5).ok()) << Outcome(5);
  }

  const storage::testing::TemporaryFolder folder_;
  std::unique_ptr<WorkerHarness> harness_;
};

TEST_F(ArrayFilesTest, TilesAreWrittenCommittedAndReadInOtherTiles) {
  SaveFour();
  EXPECT_TRUE(fs::exists(folder_.path() / "checkpoint/x/.zarray"));
  EXPECT_EQ(fs::file_size(folder_.path() / "checkpoint/x/1"), 8u);
  Load(6, 200, 4, 1, 3);
  ASSERT_TRUE(Outcome(6).ok()) << Outcome(6);
  EXPECT_THAT(w().Read(200, 0), ElementsAre(2, 3, 4));
  EXPECT_THAT(w().Read(200, 1), ElementsAre(2, 3, 4));
}

TEST_F(ArrayFilesTest, ASaveReadsTheArrayAsItWasWhenTheCommandCame) {
  w().Compile(1, kDonate, {0});
  w().Settle();
  w().hold_disk = true;
  w().PutLater(10, 100, 4, {0});
  Save(11, 100, 4, 4, 0);
  w().Execute(12, 1, {100}, {101});  // takes the array over
  w().Release(100);
  w().SendChunks(10, {1, 2, 3, 4});
  w().Settle();
  EXPECT_EQ(w().connection.done.count(11), 0u) << "nothing is written yet";
  w().hold_disk = false;
  ASSERT_TRUE(Outcome(11).ok()) << Outcome(11);
  Commit(13, 4, 4);
  ASSERT_TRUE(Outcome(13).ok());
  Load(14, 200, 4, 0, 4);
  EXPECT_THAT(w().Read(200, 0), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(w().Read(101, 0), ElementsAre(2, 3, 4, 5));
}

TEST_F(ArrayFilesTest, ErrorsOfArraysAndFilesAreTheOutcome) {
  Save(1, 100, 4, 4, 0);
  EXPECT_EQ(Outcome(1).code(), absl::StatusCode::kNotFound) << "there is no such array";
  w().Put(2, 101, {1, 2, 3, 4});
  Save(3, 101, 8, 8, 0);
  EXPECT_EQ(Outcome(3).code(), absl::StatusCode::kInvalidArgument) << "the shard has 4 elements, the tile 8";
  Save(4, 101, 8, 4, 3);
  EXPECT_EQ(Outcome(4).code(), absl::StatusCode::kInvalidArgument) << "no tile begins there";
  fs::create_directory_symlink("/tmp", folder_.path() / "checkpoint");
  Save(5, 101, 4, 4, 0);
  EXPECT_EQ(Outcome(5).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(Outcome(5).message()), HasSubstr("host 'h': cannot write"));
  Load(6, 200, 4, 0, 4);
  EXPECT_EQ(Outcome(6).code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ArrayFilesTest, ClientsUseTheFoldersOfTheOperatorOnly) {
  w().Put(1, 100, {1, 2, 3, 4});
  v1::Command save, load;
  save.mutable_save_tiles()->set_op(2);
  save.mutable_save_tiles()->set_save("s1");
  save.mutable_save_tiles()->set_location("/etc");
  save.mutable_save_tiles()->set_host("host 'h'");
  Describe(4, 4, save.mutable_save_tiles()->mutable_stored());
  save.mutable_save_tiles()->set_array(100);
  save.mutable_save_tiles()->add_tiles()->add_start(0);
  w().Do(save);
  EXPECT_EQ(Outcome(2).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(Outcome(2).message()),
              HasSubstr("host 'h': clients may not use /etc: start the process with a --persistence-directory"));
  save.mutable_save_tiles()->set_op(3);
  save.mutable_save_tiles()->set_location(location());
  save.mutable_save_tiles()->mutable_stored()->set_name("../x");
  w().Do(save);
  EXPECT_EQ(Outcome(3).code(), absl::StatusCode::kInvalidArgument);
  load.mutable_load_tiles()->set_op(4);
  load.mutable_load_tiles()->set_location(location());
  Describe(4, 0, load.mutable_load_tiles()->mutable_stored());
  load.mutable_load_tiles()->mutable_stored()->set_name("../x");
  w().Do(load);
  EXPECT_EQ(Outcome(4).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ArrayFilesTest, AUserReachesNoFileOfAnother) {
  WorkerHarness::Setup setup;
  setup.client_files = storage::Roots("", "", folder_.path() / "{user}");
  harness_ = nullptr;
  harness_ = std::make_unique<WorkerHarness>(setup);
  w().Put(1, 100, {1, 2, 3, 4});
  uint64_t op = 2;
  const auto outcome = [&](const std::string& user, v1::Command command) {
    const std::string of_ada = folder_.path() / "ada";
    const auto fill = [&](auto* file) {
      file->set_op(++op);
      file->set_location(of_ada);
      file->set_user(user);
    };
    if (command.has_save_tiles()) {
      fill(command.mutable_save_tiles());
      command.mutable_save_tiles()->set_save("s1");
      command.mutable_save_tiles()->set_array(100);
      Describe(4, 4, command.mutable_save_tiles()->mutable_stored());
      command.mutable_save_tiles()->add_tiles()->add_start(0);
    } else if (command.has_commit_save()) {
      fill(command.mutable_commit_save());
      command.mutable_commit_save()->set_save("s1");
      Describe(4, 4, command.mutable_commit_save()->add_arrays());
    } else if (command.has_drop_save()) {
      fill(command.mutable_drop_save());
      command.mutable_drop_save()->set_save("s1");
    } else {
      fill(command.mutable_load_tiles());
      Describe(4, 0, command.mutable_load_tiles()->mutable_stored());
    }
    w().Do(command);
    return Outcome(op).code();
  };
  v1::Command save, commit, drop, load;
  save.mutable_save_tiles();
  commit.mutable_commit_save();
  drop.mutable_drop_save();
  load.mutable_load_tiles();
  EXPECT_EQ(outcome("ada", save), absl::StatusCode::kOk);
  for (const v1::Command& command : {save, commit, drop, load})
    EXPECT_EQ(outcome("bob", command), absl::StatusCode::kPermissionDenied) << command.ShortDebugString();
  EXPECT_EQ(outcome("ada", commit), absl::StatusCode::kOk);
  EXPECT_EQ(outcome("ada", load), absl::StatusCode::kOk);
}

TEST_F(ArrayFilesTest, ACommitMissesAHostThatDoesNotShareTheFiles) {
  w().Put(1, 100, {1, 2});
  Save(2, 100, 2, 2, 0);
  ASSERT_TRUE(Outcome(2).ok());
  Commit(3, 2, 2, {1, 9});
  EXPECT_EQ(Outcome(3).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Outcome(3).message()), HasSubstr("host 'h': host 9 has written its part"));
  Drop(4);
  EXPECT_TRUE(Outcome(4).ok());
  EXPECT_TRUE(fs::is_empty(folder_.path() / "checkpoint"));
}

TEST_F(ArrayFilesTest, ADropSaysThatTheSaveWasCommitted) {
  SaveFour();
  Drop(6);
  EXPECT_EQ(Outcome(6).code(), absl::StatusCode::kNotFound) << "it is over, and its folder gone";
  w().Put(7, 102, {5, 6, 7, 8});
  Save(8, 102, 4, 4, 0);
  ASSERT_TRUE(Outcome(8).ok());
  // As if the host that commits had ended in between.
  const fs::path staging = folder_.path() / "checkpoint/.pathways-save-s1";
  const storage::ZarrArray array{buffers::DType::kF32, {4}, {4}};
  ASSERT_TRUE(storage::WriteWholeFile({staging, ""}, "commit", Bytes()).ok());
  Drop(9);
  EXPECT_EQ(Outcome(9).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(ArrayFilesTest, MissingArraysAndOtherShapesAreErrorsOfTheLoad) {
  Load(41, 200, 4, 0, 4);
  EXPECT_EQ(Outcome(41).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(Outcome(41).message()), HasSubstr("host 'h': cannot read"));
  EXPECT_THAT(std::string(Outcome(41).message()), HasSubstr("do not share this file system"));
  SaveFour();
  Load(6, 201, 5, 0, 5);
  EXPECT_EQ(Outcome(6).code(), absl::StatusCode::kInvalidArgument);
  Load(7, 202, 4, 2, 3);
  EXPECT_EQ(Outcome(7).code(), absl::StatusCode::kInvalidArgument) << "beyond the array";
  fs::remove(folder_.path() / "checkpoint/x/1");
  Load(8, 203, 4, 0, 2);
  EXPECT_TRUE(Outcome(8).ok()) << "the other tile is there";
  Load(9, 204, 4, 1, 2);
  EXPECT_EQ(Outcome(9).code(), absl::StatusCode::kNotFound);
  w().Fetch(99, 204, 0);
  w().Settle();
  EXPECT_FALSE(FromProto(w().connection.fetched[99].status()).ok()) << "the array is the error";
}

// However many tiles, only as many are copied as the limit allows; and one always is.
TEST_F(ArrayFilesTest, CopiesInHostMemoryAreBounded) {
  Start(/*file_bytes=*/40);
  w().hold_disk = true;
  constexpr int kTiles = 10;
  for (int i = 0; i < kTiles; ++i) {
    w().Put(1 + i, 100 + i, {float(i), float(i), float(i), float(i)}, {0});  // 16 bytes
    Save(50 + i, 100 + i, 4 * kTiles, 4, 4 * i);
  }
  w().Settle();
  EXPECT_EQ(w().disk_executor.size(), 2u) << "40 bytes hold two tiles";
  w().hold_disk = false;
  for (int i = 0; i < kTiles; ++i) EXPECT_TRUE(Outcome(50 + i).ok());
  Commit(70, 4 * kTiles, 4);
  ASSERT_TRUE(Outcome(70).ok()) << Outcome(70);
  w().hold_disk = true;
  for (int i = 0; i < kTiles; ++i) Load(80 + i, 200 + i, 4 * kTiles, 4 * i, 4);
  w().disk_executor.RunUntilIdle();  // reads the descriptions
  w().Settle();
  EXPECT_EQ(w().disk_executor.size(), 2u);
  w().hold_disk = false;
  for (int i = 0; i < kTiles; ++i) EXPECT_TRUE(Outcome(80 + i).ok());
  EXPECT_THAT(w().Read(207, 1), ElementsAre(7, 7, 7, 7));
  Load(90, 300, 4 * kTiles, 0, 4 * kTiles);
  EXPECT_TRUE(Outcome(90).ok()) << "160 bytes at once";
}

TEST_F(ArrayFilesTest, ManyTilesOfOneUserKeepOthersWaitingForOneOnly) {
  Start(/*file_bytes=*/16);
  w().hold_disk = true;
  constexpr int kTiles = 10;
  for (int i = 0; i <= kTiles; ++i) w().Put(1 + i, 100 + i, {float(i), float(i), float(i), float(i)}, {0});  // 16 bytes
  for (int i = 0; i < kTiles; ++i) Save(50 + i, 100 + i, 4 * (kTiles + 1), 4, 4 * i);
  Save(90, 100 + kTiles, 4 * (kTiles + 1), 4, 4 * kTiles, /*session=*/2);
  while (Outcome(90).code() == absl::StatusCode::kUnavailable) {
    ASSERT_GT(w().disk_executor.size(), 0u);
    w().disk_executor.RunUntilIdle();
  }
  EXPECT_TRUE(Outcome(90).ok()) << Outcome(90);
  int written = 0;
  for (int i = 0; i < kTiles; ++i) written += Outcome(50 + i).ok();
  EXPECT_LE(written, 3) << "those that were under way, and one more";
  w().hold_disk = false;
  for (int i = 0; i < kTiles; ++i) EXPECT_TRUE(Outcome(50 + i).ok());
}

TEST_F(ArrayFilesTest, ASessionOrAWorkerMayEndWhileItsFilesAreWrittenOrRead) {
  SaveFour();
  w().hold_disk = true;
  w().Put(10, 110, {1, 2}, {0}, 5);
  Save(11, 110, 2, 2, 0, 5);
  w().PutLater(12, 111, 2, {0}, 5);
  Save(13, 111, 2, 2, 0, 5);
  Load(14, 210, 4, 0, 4, 5);
  w().Settle();
  w().ReleaseOwner(5);
  w().hold_disk = false;
  for (uint64_t op : {11, 13, 14}) EXPECT_NE(Outcome(op).code(), absl::StatusCode::kUnavailable) << op << " is answered";
  EXPECT_FALSE(Outcome(13).ok());
  EXPECT_FALSE(Outcome(14).ok());
  w().hold_disk = true;
  Load(20, 220, 4, 0, 4);
  w().Settle();
  harness_ = nullptr;  // with the load on the disk's thread
}

TEST_F(ArrayFilesTest, AHostWithoutFilesSaysSo) {
  WorkerHarness::Setup setup;
  setup.has_disk = false;
  harness_ = std::make_unique<WorkerHarness>(setup);
  w().Put(1, 100, {1, 2, 3, 4});
  Save(2, 100, 4, 4, 0);
  EXPECT_EQ(Outcome(2).code(), absl::StatusCode::kFailedPrecondition);
  Load(3, 200, 4, 0, 4);
  EXPECT_EQ(Outcome(3).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace pw::worker
