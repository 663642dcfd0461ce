// Storage, zarr, and the programs that write and read arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pathways/frontend/plugin_programs/storage.h"
#include "pathways/frontend/plugin_programs/zarr.h"
#include "pathways/frontend/testing/session_fixture.h"

namespace pw::frontend {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Folder {
 public:
  explicit Folder(const std::string& name = "folder") : path_(fs::path(::testing::TempDir()) / absl::StrCat("pw_persistence_", getpid(), "_", name)) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

TEST(StorageTest, PathsStayBelowTheirFolder) {
  Folder folder;
  const Storage storage(folder.path(), "");
  EXPECT_EQ(storage.Resolve(folder.path() / "a/b")->path(), folder.path() / "a/b");
  EXPECT_EQ(storage.Resolve(folder.path())->path(), folder.path());
  EXPECT_EQ(storage.Resolve("/etc/passwd").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(storage.Resolve(folder.path() / "../x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(storage.Resolve("relative").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(storage.Resolve("gs://bucket/x").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(StorageTest, NoLinkAndNoPipeIsFollowed) {
  Folder folder, elsewhere("elsewhere");
  const StoredFolder root{folder.path(), ""};
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

TEST(StorageTest, ObjectsAreKeptInTheirOwnFolder) {
  const Storage storage("", "/objects");
  EXPECT_EQ(storage.Resolve("gs://bucket/x")->path(), "/objects/gs/bucket/x");
  EXPECT_FALSE(storage.Resolve("gs://../x").ok());
  EXPECT_FALSE(storage.Resolve("../gs://x").ok());
  EXPECT_FALSE(storage.Resolve("gs:///etc").ok());
  EXPECT_FALSE(storage.Resolve("/tmp").ok());
}

TEST(ZarrTest, ChunksOfOneCutAreReadInAnother) {
  Folder folder;
  const ZarrArray array{buffers::DType::kU8, {5, 7}, {2, 3}};
  std::vector<uint8_t> whole(35);
  std::iota(whole.begin(), whole.end(), 1);
  auto cut = [&](const buffers::Region& region) {
    std::string data;
    for (int64_t i = 0; i < region.size[0]; ++i) {
      for (int64_t j = 0; j < region.size[1]; ++j) data.push_back(whole[(region.start[0] + i) * 7 + region.start[1] + j]);
    }
    return Bytes::FromString(std::move(data));
  };
  for (int64_t i = 0; i < 5; i += 2) {
    for (int64_t j = 0; j < 7; j += 3) {
      const buffers::Region region{{i, j}, {std::min<int64_t>(2, 5 - i), std::min<int64_t>(3, 7 - j)}};
      ASSERT_TRUE(WriteZarrChunk({folder.path(), ""}, array, region, cut(region)).ok());
    }
  }
  for (const buffers::Region& region : {buffers::Region{{0, 0}, {5, 7}}, {{1, 2}, {3, 4}}, {{4, 6}, {1, 1}}, {{0, 0}, {0, 7}}}) {
    auto data = ReadZarrRegion({folder.path(), ""}, array, region);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->view(), cut(region).view());
  }
  fs::remove(folder.path() / "1.1");
  EXPECT_THAT(std::string(ReadZarrRegion({folder.path(), ""}, array, {{0, 0}, {5, 7}}).status().message()), HasSubstr("1.1"));
}

TEST(ZarrTest, MetadataComesBack) {
  auto parsed = ParseZarrMetadata(*ZarrMetadata({buffers::DType::kBF16, {0, 3}, {1, 3}}));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->dtype, buffers::DType::kBF16);
  EXPECT_EQ(parsed->dims, (buffers::Dims{0, 3}));
  EXPECT_EQ(parsed->chunks, (buffers::Dims{1, 3}));
  EXPECT_FALSE(ZarrMetadata({buffers::DType::kToken, {}, {}}).ok());
  EXPECT_FALSE(ParseZarrMetadata("{}").ok());
  EXPECT_FALSE(ParseZarrMetadata(R"({"shape": [2], "chunks": [0], "dtype": "<f4"})").ok());
  EXPECT_FALSE(ParseZarrMetadata(R"({"shape": [2], "chunks": [2], "dtype": "<f4", "compressor": {"id": "blosc"}})").ok());
}

class PersistenceTest : public testing::ClientSessionTest {
 protected:
  static std::string Item(const fs::path& location, const std::string& shape) {
    return absl::StrCat(R"({"b64_location": ")", absl::Base64Escape(location.string()), R"(", "b64_name": ")",
                        absl::Base64Escape("x"), R"(", "b64_hlo_sharding_string": "", "devices": {"device_ids": [1]}, "shape": )",
                        shape, "}");
  }
  IfrtResponse CompilePlugin(const std::string& json) {
    return Compile("xla::ifrt::PluginProgram", "__serialized_plugin_program " + json);
  }
  IfrtResponse CompileWrite(const fs::path& location) {
    return CompilePlugin(
        absl::StrCat(R"({"bulk_persistence_write_request": {"write_requests": [)", Item(location, "[4]"), "]}}"));
  }
  IfrtResponse CompileRead(const fs::path& location, const std::string& dims) {
    const std::string shape = absl::StrCat(R"({"xla_primitive_type_str": "F32", "dimensions": )", dims, "}");
    return CompilePlugin(absl::StrCat(R"({"bulk_persistence_read_request": {"read_requests": [)", Item(location, shape), "]}}"));
  }
  Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(Versions, PersistenceTest, ::testing::Values(protocol::kOldest, protocol::kNewest));

TEST_P(PersistenceTest, WhatIsWrittenCanBeRead) {
  Init();
  MakeFilledArray(1);
  const auto write = CompileWrite(folder_.path());
  ASSERT_EQ(CodeOf(write), 0) << TextOf(write);
  const auto run = Execute(write.compile_response().loaded_executable_handle(), {1}, {}, 30);
  ASSERT_EQ(CodeOf(run), 0) << TextOf(run);
  EXPECT_EQ(run.loaded_executable_execute_response().outputs_size(), 0);
  const auto end = CheckFuture(30);
  ASSERT_EQ(CodeOf(end), 0) << TextOf(end);
  EXPECT_TRUE(fs::exists(folder_.path() / "x/.zarray"));
  EXPECT_EQ(fs::file_size(folder_.path() / "x/0"), 16);
  EXPECT_EQ(fake().arrays.size(), 1);
  EXPECT_TRUE(fake().host_buffers.empty());

  const auto read = CompileRead(folder_.path(), "[4]");
  ASSERT_EQ(CodeOf(read), 0) << TextOf(read);
  const auto outputs = Execute(read.compile_response().loaded_executable_handle(), {}, {}, 31);
  ASSERT_EQ(outputs.loaded_executable_execute_response().outputs_size(), 1) << TextOf(outputs);
  EXPECT_EQ(CodeOf(CheckFuture(31)), 0);
  const auto& array = fake().arrays[outputs.loaded_executable_execute_response().outputs(0).array_handle()];
  EXPECT_EQ(array.data->bytes.view(), "0123456789abcdef");
  EXPECT_EQ(array.spec.sharding.devices()[0], DeviceId(1));
}

TEST_P(PersistenceTest, MistakesAreNamed) {
  Init();
  MakeFilledArray(1);
  EXPECT_EQ(CodeOf(CompileRead(folder_.path(), "[4]")), 5);
  const auto write = CompileWrite("/etc");
  ASSERT_EQ(CodeOf(write), 0);
  const auto run = Execute(write.compile_response().loaded_executable_handle(), {1}, {}, 30);
  EXPECT_EQ(CodeOf(run), 7);
  EXPECT_THAT(TextOf(run), HasSubstr("--persistence-directory"));
  EXPECT_EQ(CodeOf(CheckFuture(30)), 7);
  EXPECT_EQ(CodeOf(Execute(write.compile_response().loaded_executable_handle(), {}, {}, 31)), 3);
  const auto good = CompileWrite(folder_.path());
  Execute(good.compile_response().loaded_executable_handle(), {1}, {}, 32);
  EXPECT_EQ(CodeOf(CheckFuture(32)), 0);
  EXPECT_EQ(CodeOf(CompileRead(folder_.path(), "[5]")), 3);
  const auto read = CompileRead(folder_.path(), "[4]");
  fs::remove(folder_.path() / "x/0");
  Execute(read.compile_response().loaded_executable_handle(), {}, {}, 33);
  EXPECT_EQ(CodeOf(CheckFuture(33)), 5);
}

TEST_P(PersistenceTest, AProfileIsTakenBetweenTwoRuns) {
  Init();
  const auto profile = CompilePlugin(absl::StrCat(R"({"profileRequest": {"traceLocation": ")", folder_.path().string(),
                                                  R"(", "xprofTraceOptions": {"traceSessionName": "s1"}}})"));
  ASSERT_EQ(CodeOf(profile), 0) << TextOf(profile);
  const uint64_t executable = profile.compile_response().loaded_executable_handle();
  const auto start = Execute(executable, {}, {}, 30);
  ASSERT_EQ(start.loaded_executable_execute_response().outputs_size(), 1) << TextOf(start);
  EXPECT_EQ(CodeOf(CheckFuture(30)), 0);
  MakeFilledArray(1);
  EXPECT_EQ(CodeOf(Execute(executable, {}, {5}, 31)), 0);
  EXPECT_EQ(CodeOf(CheckFuture(31)), 0);
  auto trace = ReadWholeFile({folder_.path(), "plugins/profile/s1"}, "pathways_controller.trace.json", 1 << 20);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(std::string(trace->view()), HasSubstr("make_array_from_host_buffer"));
  EXPECT_EQ(CodeOf(CompilePlugin(R"({"profileRequest": {"traceLocation": "gs://bucket/x"}})")), 7);
}

}  // namespace
}  // namespace pw::frontend
