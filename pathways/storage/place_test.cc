#include "pathways/storage/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "pathways/storage/testing.h"
#include "pathways/storage/testing/objects.h"

namespace pw::storage {
namespace {

using ::testing::HasSubstr;

class PlaceTest : public ::testing::Test {
 protected:
  Places PlacesFor(const std::string& users = "") const {
    ObjectStores stores;
    stores.by_scheme["s3"] = std::make_shared<const testing::MemoryObjectStore>(shared_);
    stores.users_below = users;
    return Places(Roots(folder_.path(), folder_.path() / "objects"), stores);
  }
  // Saves 1, 2, 3, 4 in two tiles of two, and returns the middle as another cluster reads it.
  std::string SaveAndRead(const std::string& location) const {
    const NamedArray array{"w", {buffers::DType::kU8, {4}, {2}}};
    const auto place = PlacesFor().Resolve(location);
    if (!place.ok()) return std::string(place.status().message());
    const auto save = (*place)->Save("s1");
    for (int64_t start : {0, 2}) {
      const std::string tile = {static_cast<char>('1' + start), static_cast<char>('2' + start)};
      if (!save->Begin(array).ok() || !save->WriteTile(array, {{start}, {2}}, Bytes::Copy(tile)).ok()) return "not written";
    }
    if (!save->AddHost(HostId(1)).ok() || !save->Commit({array}, {{HostId(1), "host"}}).ok()) return "not committed";
    NamedArray found{"w", {buffers::DType::kU8, {4}, {}}};
    const auto opened = (*place)->Open(found);
    if (!opened.ok()) return std::string(opened.status().message());
    found.array = *opened;
    const auto read = (*place)->Read(found, {{1}, {2}});
    return read.ok() ? std::string(read->view()) : std::string(read.status().message());
  }

  const testing::TemporaryFolder folder_;
  const std::shared_ptr<testing::ObjectsInMemory> shared_ = std::make_shared<testing::ObjectsInMemory>();
};

TEST_F(PlaceTest, ArraysGoToFoldersOrToTheStoreOfTheirScheme) {
  EXPECT_EQ(SaveAndRead((folder_.path() / "step").string()), "23");
  EXPECT_TRUE(shared_->Names().empty());
  EXPECT_EQ(SaveAndRead("gs://bucket/step"), "23");
  EXPECT_TRUE(shared_->Names().empty()) << "objects of another scheme are files";
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "objects/gs/bucket/step/w/.zarray"));
  EXPECT_EQ(SaveAndRead("s3://bucket/step/"), "23");
  EXPECT_THAT(shared_->Names(), ::testing::ElementsAre("bucket/step/w/.zarray", "bucket/step/w/0", "bucket/step/w/1"));
  EXPECT_EQ(SaveAndRead("s3://bucket"), "23");
  EXPECT_THAT(shared_->Names(), ::testing::Contains("bucket/w/.zarray"));
}

TEST_F(PlaceTest, ALoadOfAnotherShapeOrOfNothingFails) {
  ASSERT_EQ(SaveAndRead("s3://bucket/step"), "23");
  const auto place = *PlacesFor().Resolve("s3://bucket/step");
  EXPECT_EQ(place->Open({"w", {buffers::DType::kU8, {5}, {}}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(place->Open({"v", {buffers::DType::kU8, {4}, {}}}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PlaceTest, LocationsThatAreNoneAreRefused) {
  for (const std::string bad : {"s3://", "s3://bu", "s3://UPPER/x", "s3://bucket//x", "s3://bucket/x//y", "s3://bucket/x//",
                                "s3://bucket/../other/x", "s3://bucket/./x", "s3:///x", "s3://bucket/a\nb", "s3://../x"}) {
    EXPECT_EQ(PlacesFor().Resolve(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(PlacesFor().Resolve("s3://bucket/" + std::string(600, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PlaceTest, OtherUsersReachTheirOwnObjectsOnly) {
  const Places places = PlacesFor("s3://bucket/{user}");
  EXPECT_TRUE(places.Resolve("s3://bucket/ada", "ada").ok());
  EXPECT_TRUE(places.Resolve("s3://bucket/ada/step", "ada").ok());
  EXPECT_TRUE(places.Resolve("s3://other/x").ok()) << "this process's own user";
  for (const std::string location : {"s3://bucket", "s3://bucket/adam/x", "s3://bucket/bob/x", "s3://other/ada/x"}) {
    const absl::Status status = places.Resolve(location, "ada").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << location;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--users-objects names: s3://bucket/ada")) << location;
  }
  EXPECT_EQ(places.Resolve("s3://bucket/ada/../bob/x", "ada").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(places.Resolve("s3://bucket/a/b", "a/b").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(PlacesFor().Resolve("s3://bucket/ada", "ada").status().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace pw::storage
