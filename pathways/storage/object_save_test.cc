#include "pathways/storage/object_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "pathways/storage/testing/objects.h"
#include "pathways/v1/storage.pb.h"

namespace pw::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryObjectStore;
using testing::ObjectsInMemory;
using testing::StoredObject;

// Three arrays: two of two tiles each, and one without elements.
std::vector<NamedArray> Arrays() {
  const ZarrArray array{buffers::DType::kU8, {4}, {2}};
  return {{"x", array}, {"x/deep", array}, {"empty", {buffers::DType::kU8, {0}, {1}}}};
}

class ObjectSaveTest : public ::testing::Test {
 protected:
  // Another process, which is cut off after `requests` requests.
  ObjectLocation Process(int requests = 1 << 30, const std::string& key = "step") const {
    return {std::make_shared<const MemoryObjectStore>(shared_, requests), {"bucket", key}};
  }
  static absl::Status Stage(const ObjectSave& save, char fill, HostId host = HostId(7)) {
    for (const NamedArray& array : Arrays()) {
      if (array.array.dims[0] == 0) continue;
      if (absl::Status status = save.Begin(array); !status.ok()) return status;
      for (int64_t start : {0, 2}) {
        if (absl::Status status = save.WriteTile(array, {{start}, {2}}, Bytes::FromString(std::string(2, fill))); !status.ok())
          return status;
      }
    }
    return save.AddHost(host);
  }
  absl::Status Save(const std::string& id, char fill, const ObjectLocation& location) const {
    const ObjectSave save(location, id);
    if (absl::Status status = Stage(save, fill); !status.ok()) return status;
    return save.Commit(Arrays(), {{HostId(7), "host 7"}});
  }
  // Returns an array's elements as a foreign reader finds them, who knows nothing of saves: "none" without a description.
  std::string Read(const std::string& name) const {
    std::lock_guard<std::mutex> lock(shared_->mu);
    if (shared_->objects.count("bucket/step/" + name + "/.zarray") == 0) return "none";
    std::string all;
    for (const char* chunk : {"0", "1"}) {
      const auto found = shared_->objects.find("bucket/step/" + name + "/" + chunk);
      all += found == shared_->objects.end() ? "?" : found->second.data;
    }
    return all;
  }

  const std::shared_ptr<ObjectsInMemory> shared_ = std::make_shared<ObjectsInMemory>();
};

TEST_F(ObjectSaveTest, ArraysAppearAtTheCommitAndNothingElseStays) {
  const ObjectSave save(Process(), "s1");
  ASSERT_TRUE(Stage(save, 'a').ok());
  EXPECT_EQ(Read("x"), "none");
  ASSERT_TRUE(save.Commit(Arrays(), {{HostId(7), "host 7"}}).ok());
  EXPECT_EQ(Read("x"), "aaaa");
  EXPECT_THAT(shared_->Names(),
              ElementsAre("bucket/step/empty/.zarray", "bucket/step/x/.zarray", "bucket/step/x/0", "bucket/step/x/1",
                          "bucket/step/x/deep/.zarray", "bucket/step/x/deep/0", "bucket/step/x/deep/1"));
  EXPECT_EQ(*save.Drop(), ArraySave::Dropped::kAbsent);
}

TEST_F(ObjectSaveTest, ASaveReplacesNoArray) {
  ASSERT_TRUE(Save("s1", 'a', Process()).ok());
  const absl::Status again = Save("s2", 'b', Process());
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("mem://bucket/step/x: the array exists"));
  EXPECT_TRUE(ObjectSave(Process(), "s2").Drop().ok());
  EXPECT_EQ(Read("x"), "aaaa");
  EXPECT_EQ(shared_->Names().size(), 7u);
}

TEST_F(ObjectSaveTest, OfTwoSavesOfAnArrayTheFirstWins) {
  const ObjectSave first(Process(), "s1"), second(Process(), "s2");
  ASSERT_TRUE(first.Begin(Arrays()[0]).ok());
  const absl::Status status = second.Begin(Arrays()[0]);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another save writes this array"));
  EXPECT_EQ(*second.Drop(), ArraySave::Dropped::kRemains);
  ASSERT_TRUE(Stage(first, 'a').ok());
  ASSERT_TRUE(first.Commit(Arrays(), {{HostId(7), "host 7"}}).ok());
  EXPECT_EQ(Read("x"), "aaaa");
}

TEST_F(ObjectSaveTest, ADroppedSaveLeavesNothingAndTheArrayCanBeSavedAgain) {
  const ObjectSave save(Process(), "s1");
  ASSERT_TRUE(Save("other", 'o', Process(1 << 30, "step/x/beside")).ok());
  ASSERT_TRUE(Stage(save, 'a').ok());
  EXPECT_EQ(*save.Drop(), ArraySave::Dropped::kRemoved);
  EXPECT_EQ(shared_->Names().size(), 7u) << "those of the other location";
  EXPECT_EQ(*save.Drop(), ArraySave::Dropped::kAbsent);
  ASSERT_TRUE(Save("s2", 'b', Process()).ok());
  EXPECT_EQ(Read("x"), "bbbb");
}

TEST_F(ObjectSaveTest, WhatALostProcessStillWritesReplacesNoTileOfALaterSave) {
  const ObjectSave lost(Process(), "s1");
  ASSERT_TRUE(Stage(lost, 'a').ok());
  ASSERT_TRUE(ObjectSave(Process(), "s1").Drop().ok());
  // Before the later save has its tile: it is replaced. After: it stays.
  ASSERT_TRUE(Process().store->PutNew({"bucket", "step/x/0"}, Bytes::Copy("zz"), "s1").ok());
  ASSERT_TRUE(Save("s2", 'b', Process()).ok());
  EXPECT_FALSE(Process().store->PutNew({"bucket", "step/x/1"}, Bytes::Copy("zz"), "s1").ok());
  EXPECT_EQ(Read("x"), "bbbb");
}

TEST_F(ObjectSaveTest, AHostThatUsesAnotherStoreIsNamed) {
  const ObjectSave save(Process(), "s1");
  ASSERT_TRUE(Stage(save, 'a').ok());
  const absl::Status status = save.Commit(Arrays(), {{HostId(7), "host 7"}, {HostId(8), "host 8"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("host 8 has written its part"));
  EXPECT_EQ(Read("x"), "none");
}

TEST_F(ObjectSaveTest, AMissingOrCutTileFailsTheCommit) {
  const ObjectSave save(Process(), "s1");
  ASSERT_TRUE(Stage(save, 'a').ok());
  ASSERT_TRUE(Process().store->Put({"bucket", "step/x/1"}, Bytes::Copy("a")).ok());
  EXPECT_EQ(save.Commit(Arrays(), {{HostId(7), "host 7"}}).code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(Process().store->Delete({"bucket", "step/x/1"}).ok());
  EXPECT_EQ(save.Commit(Arrays(), {{HostId(7), "host 7"}}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Read("x"), "none");
}

// A process is killed before each of its requests in turn.
TEST_F(ObjectSaveTest, AProcessThatIsKilledAtAnyMomentLeavesAllArraysOrNone) {
  int not_saved = 0, saved = 0;
  for (int requests = 0;; ++requests) {
    shared_->objects.clear();
    const ObjectLocation killed = Process(requests);
    const absl::Status status = Save("s1", 'a', killed);
    for (const char* name : {"x", "x/deep"}) {
      ASSERT_THAT(Read(name), ::testing::AnyOf("none", "aaaa")) << "after " << requests << " requests";
    }
    if (requests % 2 == 0) {  // a reader comes first
      ASSERT_TRUE(ObjectSave::Complete(Process()).ok());
      ASSERT_EQ(Read("x"), Read("x/deep")) << "after " << requests << " requests";
    }
    const auto dropped = ObjectSave(Process(), "s1").Drop();
    ASSERT_TRUE(dropped.ok());
    ASSERT_EQ(Read("x"), Read("x/deep"));
    if (Read("x") == "none") {
      ASSERT_FALSE(status.ok());
      ASSERT_THAT(shared_->Names(), IsEmpty()) << "after " << requests << " requests";
      ASSERT_TRUE(Save("s2", 'b', Process()).ok());
      ASSERT_EQ(Read("x"), "bbbb");
      ++not_saved;
    } else {
      ASSERT_EQ(shared_->Names().size(), 7u) << "after " << requests << " requests";
      ++saved;
    }
    if (status.ok()) break;
  }
  EXPECT_GT(not_saved, 10);
  EXPECT_GT(saved, 5);
}

// Two readers complete a save at the same time; the slower one is held before each of its requests.
TEST_F(ObjectSaveTest, AReaderThatIsLateChangesNothing) {
  for (int first = 0; first < 20; ++first) {
    shared_->objects.clear();
    for (int requests = 0;; ++requests) {  // up to the commit
      shared_->objects.clear();
      (void)Save("s1", 'a', Process(requests));
      if (shared_->objects.count("bucket/step/.pathways-save-s1/commit") == 1) break;
    }
    (void)ObjectSave::Complete(Process(first));
    ASSERT_TRUE(ObjectSave::Complete(Process()).ok());
    ASSERT_EQ(Read("x"), "aaaa");
    ASSERT_EQ(shared_->Names().size(), 7u);
  }
}

// A reader has seen the commit of the first save, whose arrays are removed, and saved again, before it goes on.
TEST_F(ObjectSaveTest, AReaderThatIsVeryLateTouchesNothingOfALaterSave) {
  ASSERT_TRUE(Save("s1", 'a', Process()).ok());
  const StoredObject description = shared_->objects["bucket/step/x/.zarray"];
  shared_->objects.clear();
  ::pathways::v1::SaveCommit commit;
  commit.add_arrays()->set_name("x");
  commit.mutable_arrays(0)->set_metadata(description.data);
  shared_->objects["bucket/step/.pathways-save-s1/commit"] = {commit.SerializeAsString(), ""};
  const ObjectSave later(Process(), "s2");
  ASSERT_TRUE(Stage(later, 'b').ok());
  ASSERT_TRUE(ObjectSave::Complete(Process()).ok());
  EXPECT_EQ(Read("x"), "none");
  ASSERT_TRUE(later.Commit(Arrays(), {{HostId(7), "host 7"}}).ok());
  EXPECT_EQ(Read("x"), "bbbb");
  EXPECT_EQ(shared_->objects["bucket/step/x/.zarray"].mark, "s2");
}

TEST_F(ObjectSaveTest, NamesAreChecked) {
  const NamedArray bad{"../x", Arrays()[0].array};
  EXPECT_EQ(ObjectSave(Process(), "s1").Begin(bad).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ObjectSave(Process(), "s1").WriteTile(bad, {{0}, {2}}, Bytes::Copy("aa")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ObjectSave(Process(), "a/b").Begin(Arrays()[0]).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ObjectSave(Process(), "a/b").Drop().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(shared_->Names(), IsEmpty());
}

TEST_F(ObjectSaveTest, ADamagedCommitIsNamed) {
  ASSERT_TRUE(Process().store->Put({"bucket", "step/.pathways-save-s1/commit"}, Bytes::Copy("not a message")).ok());
  const absl::Status status = ObjectSave::Complete(Process());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mem://bucket/step/.pathways-save-s1/commit is damaged"));
}

}  // namespace
}  // namespace pw::storage
