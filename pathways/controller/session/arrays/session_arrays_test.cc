#include <cstring>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::HasSubstr;
constexpr auto kReuse = CopySemantics::kReuseInput;

std::string Letters(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

TEST(MakeArrayTest, DataMayComeBeforeOrAfter) {
  TestCluster t;
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {3}), "abc").ok());
  EXPECT_EQ(*t.Fetch(1), "abc");
  ASSERT_TRUE(s.MakeArray(2, t.Single(1, {3}), {{2, {buffers::DType::kU8, {3}}, {0}}}).ok());
  EXPECT_EQ(t.Ready({2}).message(), "still waiting");
  ASSERT_TRUE(s.StoreHostBuffer(2, Bytes::Copy("xyz")).ok());
  EXPECT_TRUE(t.Ready({2}).ok());
  EXPECT_EQ(*t.Fetch(2), "xyz");
  // The buffer is consumed.
  EXPECT_EQ(s.DeleteHostBuffer(2).code(), absl::StatusCode::kNotFound);
}

TEST(MakeArrayTest, LargeDataGoesInChunksBothWays) {
  TestCluster t(2, 2);
  t.Open();
  const std::string big = Letters((5 << 20) + 12);
  buffers::ArraySpec spec{
      buffers::DType::kU8, {static_cast<int64_t>(big.size())}, buffers::Sharding::Replicated(t.Devices(0, 4), "")};
  ASSERT_TRUE(t.Put(1, spec, big).ok());
  ASSERT_TRUE(t.Ready({1}).ok());
  for (auto& worker : t.workers) {
    EXPECT_EQ(worker->Count(Command::kPut), 1);
    EXPECT_EQ(worker->Count(Command::kChunk), 6);  // once, for two shards
  }
  EXPECT_EQ(*t.Fetch(1), big);
}

TEST(MakeArrayTest, LargeDataThatComesLateGoesInChunksToo) {
  TestCluster t;
  Session& s = t.Open();
  const std::string big = Letters(3 << 20);
  const buffers::Dims dims = {3 << 20};
  ASSERT_TRUE(s.MakeArray(1, t.Single(0, dims), {{1, {buffers::DType::kU8, dims}, {0}}}).ok());
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy(big)).ok());
  EXPECT_EQ(*t.Fetch(1), big);
}

TEST(MakeArrayTest, BulkDataWaitsForRoom) {
  TestCluster t;
  t.Open();
  const std::string big(64 << 20, 'x');
  ASSERT_TRUE(t.Put(1, t.Single(0, {64 << 20}), big).ok());
  EXPECT_GT(t.cluster->fabric().queued_bulk_bytes(HostId(0)), 32u << 20);
  ASSERT_TRUE(t.Ready({1}).ok());
  EXPECT_EQ(t.cluster->fabric().queued_bulk_bytes(HostId(0)), 0u);
}

// jax sends a constant, runs a program on it and forgets it before the other connection has carried the bytes.
TEST(MakeArrayTest, DataThatComesAfterItsArrayWasForgottenStillReachesWhatWasMadeOfIt) {
  TestCluster t;
  Session& s = t.Open();
  ASSERT_TRUE(s.MakeArray(1, t.Single(0, {2}), {{1, {buffers::DType::kU8, {2}}, {0}}}).ok());
  ASSERT_TRUE(s.Copy({2}, {1}, t.Devices(1, 1), std::nullopt, kReuse).ok());
  ASSERT_TRUE(s.Destruct({1}).ok());
  t.Run();
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("ab")).ok());
  EXPECT_EQ(*t.Fetch(2), "ab");
  EXPECT_EQ(t.cluster->fabric().ops().size(), 0u);
}

TEST(MakeArrayTest, StridesBothWays) {
  TestCluster t;
  Session& s = t.Open();
  HostShard source{1, {buffers::DType::kU8, {2, 3}, buffers::Dims{1, 2}}, {0}};
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("adbecf")).ok());
  ASSERT_TRUE(s.MakeArray(1, t.Single(0, {2, 3}), {source}).ok());
  EXPECT_EQ(*t.Fetch(1), "abcdef");
  EXPECT_EQ(*t.Fetch(1, buffers::Dims{1, 2}), "adbecf");
  EXPECT_EQ(t.Fetch(1, buffers::Dims{1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(t.Fetch(1, buffers::Dims{int64_t{1} << 40, 1}).status().code(), absl::StatusCode::kInvalidArgument)
      << "nearly all of it is gaps";
}

TEST(MakeArrayTest, ZeroSizes) {
  TestCluster t;
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {0, 5}), "").ok());
  EXPECT_EQ(*t.Fetch(1), "");
  ASSERT_TRUE(s.MakeArray(2, t.Single(0, {0}), {{2, {buffers::DType::kU8, {0}}, {0}}}).ok());
  EXPECT_TRUE(t.Ready({2}).ok());
  EXPECT_TRUE(s.StoreHostBuffer(2, Bytes()).ok());  // comes late, and is dropped
  EXPECT_EQ(s.DeleteHostBuffer(2).code(), absl::StatusCode::kNotFound);
}

TEST(MakeArrayTest, DataOfTheWrongSizeFailsTheArrayAndItsUsers) {
  TestCluster t;
  Session& s = t.Open();
  ASSERT_TRUE(s.MakeArray(1, t.Single(0, {3}), {{1, {buffers::DType::kU8, {3}}, {0}}}).ok());
  ASSERT_TRUE(s.Copy({2}, {1}, t.Devices(1, 1), std::nullopt, kReuse).ok());
  EXPECT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("xy")).ok());
  for (Handle h : {1, 2}) {
    const absl::Status status = t.Ready({h});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("2 bytes came for an array that needs 3"));
  }
  EXPECT_EQ(t.workers[0]->Count(Command::kAbortTransfer), 1);
  EXPECT_EQ(t.cluster->fabric().ops().size(), 0u);
}

TEST(MakeArrayTest, RefusesWhatMakesNoSense) {
  TestCluster t(1, 4);
  Session& s = t.Open();
  const auto u8 = buffers::DType::kU8;
  const auto rows = t.Rows(0, 2, {4});
  Handle h = 10;
  auto expect = [&](absl::Status status, absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(t.Ready({h}), status) << "the handle holds the error";
    ++h;
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  expect(s.MakeArray(h, t.Single(9, {1}), {{h, {u8, {1}}, {0}}}), kInvalid, "device 9 does not exist");
  expect(s.MakeArray(h, rows, {{h, {u8, {2}}, {0}}}), kInvalid, "no host buffer has the contents of shard 1");
  expect(s.MakeArray(h, rows, {{h, {u8, {2}}, {0, 1, 1}}}), kInvalid, "shard 1 has two host buffers");
  expect(s.MakeArray(h, rows, {{h, {u8, {2}}, {0, 2}}}), kInvalid, "shard 2 does not exist");
  expect(s.MakeArray(h, rows, {{h, {u8, {2}}, {0, -1}}}), kInvalid, "does not exist");
  expect(s.MakeArray(h, rows, {{h, {u8, {3}}, {0, 1}}}), kInvalid, "shape [2], but its host buffer has shape [3]");
  expect(s.MakeArray(h, rows, {{h, {buffers::DType::kF32, {2}}, {0, 1}}}), kInvalid, "type f32 for an array of u8");
  expect(s.MakeArray(h, rows, {{h, {u8, {2}}, {0}}, {h, {u8, {2}}, {1}}}), kInvalid, "named by two sources");
  expect(s.MakeArray(h, t.Single(0, {-1}), {{h, {u8, {-1}}, {0}}}), kInvalid, "negative");
  expect(s.MakeArray(h, t.Single(0, {int64_t{1} << 40, int64_t{1} << 40}), {}), kInvalid, "overflow");
  expect(s.MakeArray(h, t.Single(0, {2}), {{h, {u8, {2}, buffers::Dims{1, 1}}, {0}}}), kInvalid, "");
  expect(s.MakeArray(h, t.Single(0, {}, buffers::DType::kToken), {{h, {buffers::DType::kToken, {}}, {0}}}),
         absl::StatusCode::kUnimplemented, "token");
  expect(s.MakeArray(h, t.Single(0, buffers::Dims(300, 1)), {{h, {u8, buffers::Dims(300, 1)}, {0}}}), kInvalid,
         "at most 256 dimensions");
  auto pinned = t.Single(0, {1});
  pinned.sharding = pinned.sharding.WithMemoryKind("attic");
  expect(s.MakeArray(h, pinned, {{h, {u8, {1}}, {0}}}), kInvalid, "it has device, pinned_host");
  // Handles.
  EXPECT_EQ(s.MakeArray(10, t.Single(0, {1}), {{10, {u8, {1}}, {0}}}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(s.MakeArray(0, t.Single(0, {1}), {{5, {u8, {1}}, {0}}}).code(), kInvalid);
  EXPECT_EQ(s.MakeArray(kFirstServerHandle + 5, t.Single(0, {1}), {{6, {u8, {1}}, {0}}}).code(), kInvalid);
  EXPECT_EQ(t.workers[0]->Count(Command::kPut), 0);
  // A refused request consumes its buffers too.
  EXPECT_TRUE(s.StoreHostBuffer(12, Bytes::Copy("abc")).ok());
  EXPECT_EQ(s.DeleteHostBuffer(12).code(), absl::StatusCode::kNotFound);
}

TEST(HostBufferTest, LimitsAndDoubles) {
  ClusterOptions options;
  options.limits.staged_bytes = 10;
  options.limits.handles = 3;
  TestCluster t(1, 1, options);
  Session& s = t.Open();
  EXPECT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("12345678")).ok());
  EXPECT_EQ(s.StoreHostBuffer(1, Bytes::Copy("1")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(s.StoreHostBuffer(2, Bytes::Copy("123")).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(s.StoreHostBuffer(0, Bytes()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(t.Await<Bytes>([&](auto done) { s.LookupHostBuffer(1, std::move(done)); })->view(), "12345678");
  EXPECT_EQ(t.Await<Bytes>([&](auto done) { s.LookupHostBuffer(9, std::move(done)); }).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(s.DeleteHostBuffer(1).ok());
  EXPECT_TRUE(s.StoreHostBuffer(2, Bytes::Copy("123")).ok());
  for (Handle h = 10; h < 13; ++h) ASSERT_TRUE(s.MakeErrorArray(h, t.Single(0, {1}), absl::InternalError("x")).ok());
  EXPECT_EQ(s.MakeErrorArray(13, t.Single(0, {1}), absl::InternalError("x")).code(), absl::StatusCode::kResourceExhausted);
}

TEST(HostBufferTest, ALookupWaitsForTheCopyThatFillsIt) {
  TestCluster t;
  Session& s = t.Open();
  ASSERT_TRUE(s.MakeArray(1, t.Single(0, {2}), {{1, {buffers::DType::kU8, {2}}, {0}}}).ok());
  std::string got;
  absl::Status copied = absl::UnknownError("not yet");
  s.CopyToHostBuffer(1, 7, std::nullopt, [&](absl::Status status) { copied = status; });
  s.LookupHostBuffer(
      7, [&](absl::StatusOr<Bytes> bytes) { got = bytes.ok() ? std::string(bytes->view()) : bytes.status().ToString(); });
  EXPECT_EQ(t.AwaitStatus([&](auto done) { s.CopyToHostBuffer(1, 7, std::nullopt, std::move(done)); }).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(got, "");
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("hi")).ok());
  t.Run();
  EXPECT_TRUE(copied.ok());
  EXPECT_EQ(got, "hi");
}

TEST(HostBufferTest, AFetchIsAnsweredThoughItsArrayIsDroppedBeforeTheBytesCome) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  const buffers::ArraySpec spec{buffers::DType::kU8, {2}, buffers::Sharding::Replicated(t.Devices(0, 2), "")};
  ASSERT_TRUE(s.MakeArray(1, spec, {{1, {buffers::DType::kU8, {2}}, {0, 1}}}).ok());
  ASSERT_TRUE(s.Disassemble({{2, 3}}, 1, kReuse).ok());
  ASSERT_TRUE(s.Copy({{4}}, {{3}}, t.Devices(0, 1), std::nullopt, kReuse).ok());
  std::map<Handle, absl::Status> copied;
  for (Handle array : {1, 2, 3, 4}) {
    s.CopyToHostBuffer(array, 30 + array, std::nullopt, [&, array](absl::Status status) { copied[array] = status; });
  }
  absl::Status ready = absl::UnknownError("not yet");
  s.WhenReady({{1, 2, 3, 4}}, [&](absl::Status status) { ready = status; });
  ASSERT_TRUE(s.Destruct({{1, 2}}).ok());
  ASSERT_TRUE(s.Delete({{3, 4}}).ok());
  t.Run();
  EXPECT_TRUE(copied.empty());
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("hi")).ok());
  t.Run();
  EXPECT_TRUE(ready.ok()) << ready;
  for (Handle array : {1, 2, 3, 4}) {
    EXPECT_EQ(copied.at(array), absl::OkStatus()) << array;
    EXPECT_EQ(t.Await<Bytes>([&](auto done) { s.LookupHostBuffer(30 + array, std::move(done)); })->view(), "hi");
  }
}

TEST(AliasTest, AssembleAndDisassembleMoveNothing) {
  TestCluster t(2, 2);
  Session& s = t.Open();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(t.Put(1 + i, t.Single(i, {2}), Letters(26).substr(2 * i, 2)).ok());
  t.Run();
  const int frames = t.workers[0]->frames;
  const std::vector<Handle> singles = {1, 2, 3, 4}, pieces = {11, 12, 13, 14};
  ASSERT_TRUE(s.Assemble(10, t.Rows(0, 4, {8}), singles, kReuse).ok());
  ASSERT_TRUE(s.Destruct(singles).ok());
  ASSERT_TRUE(s.Disassemble(pieces, 10, kReuse).ok());
  ASSERT_TRUE(s.Destruct({{10}}).ok());
  ASSERT_TRUE(t.Ready(pieces).ok());
  EXPECT_EQ(t.workers[0]->frames, frames + 1);
  EXPECT_EQ(t.workers[0]->Count(Command::kAlias), 2);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(*t.Fetch(pieces[i]), Letters(26).substr(2 * i, 2));
    EXPECT_EQ(s.Spec(pieces[i])->sharding.devices()[0], DeviceId(i));
  }
  EXPECT_EQ(t.workers[0]->num_shards(), 2u);
}

TEST(AliasTest, RefusesWhatDoesNotFitTogether) {
  TestCluster t(1, 4);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {2}), "ab").ok());
  ASSERT_TRUE(t.Put(2, t.Single(1, {3}), "abc").ok());
  ASSERT_TRUE(t.Put(3, t.Rows(0, 2, {4}), "abcd").ok());
  const std::vector<Handle> pair = {1, 2}, swapped = {2, 1}, unknown = {1, 99}, three = {1, 2, 1}, nested = {1, 3};
  const auto rows = t.Rows(0, 2, {4});
  EXPECT_THAT(s.Assemble(20, rows, pair, kReuse).ToString(),
              HasSubstr("shard 1 of u8[4] over 2 devices is u8[2], its source is u8[3]"));
  EXPECT_THAT(s.Assemble(21, rows, swapped, kReuse).ToString(), HasSubstr("copy it first"));
  EXPECT_EQ(s.Assemble(22, rows, unknown, kReuse).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(s.Assemble(23, rows, three, kReuse).ToString(), HasSubstr("3 arrays for the 2 shards"));
  EXPECT_THAT(s.Assemble(24, rows, nested, kReuse).ToString(), HasSubstr("not on a single device"));
  EXPECT_THAT(s.Disassemble({{25}}, 3, kReuse).ToString(), HasSubstr("1 results for the 2 shards"));
  EXPECT_THAT(s.FullyReplicatedShard(26, 3, kReuse).ToString(), HasSubstr("not fully replicated"));
  EXPECT_EQ(s.FullyReplicatedShard(27, 99, kReuse).code(), absl::StatusCode::kNotFound);
  for (Handle h = 20; h < 28; ++h) EXPECT_FALSE(t.Ready({h}).ok()) << h;
  EXPECT_EQ(t.workers[0]->Count(Command::kAlias), 0);
}

TEST(AliasTest, OneShardOfAReplicatedArray) {
  TestCluster t(1, 4);
  Session& s = t.Open();
  buffers::ArraySpec replicated{buffers::DType::kU8, {2}, buffers::Sharding::Replicated(t.Devices(0, 4), "")};
  ASSERT_TRUE(t.Put(1, replicated, "ab").ok());
  ASSERT_TRUE(s.FullyReplicatedShard(2, 1, kReuse).ok());
  ASSERT_TRUE(s.FullyReplicatedShard(3, 2, kReuse).ok());  // of a single device: nothing to do
  EXPECT_EQ(*t.Fetch(3), "ab");
  EXPECT_EQ(t.workers[0]->Count(Command::kAlias), 1);
  EXPECT_EQ(*t.Fetch(1), "ab");
}

TEST(AliasTest, RemapPicksShards) {
  TestCluster t(1, 4);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {8}), "aabbccdd").ok());
  const std::vector<buffers::ArraySpec> halves = {t.Rows(0, 2, {4}), t.Rows(2, 2, {4})};
  buffers::RemapPlan plan;
  plan.mappings.push_back({0, 0, {{0, 2, 1}}, {{0, 2, 1}}});
  plan.mappings.push_back({0, 1, {{2, 4, 1}}, {{0, 2, 1}}});
  ASSERT_TRUE(s.Remap({{2, 3}}, {{1}}, plan, halves, kReuse).ok());
  EXPECT_EQ(*t.FetchRows(2), "aabb");
  EXPECT_EQ(*t.FetchRows(3), "ccdd");
  plan.mappings.pop_back();
  EXPECT_EQ(s.Remap({{4, 5}}, {{1}}, plan, halves, kReuse).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(t.Ready({5}).ok());
  plan.mappings = {{0, 0, {{0, 2, 1}}, {{0, 2, 1}}}, {0, 1, {{0, 2, 1}}, {{0, 2, 1}}}};
  EXPECT_THAT(s.Remap({{6, 7}}, {{1}}, plan, halves, kReuse).ToString(), HasSubstr("copy it first"));
}

TEST(AliasTest, RemapPicksShardsByDevice) {
  TestCluster t(2, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {8}), "aabbccdd").ok());
  const std::vector<buffers::ArraySpec> halves = {t.Rows(0, 2, {4}), t.Rows(2, 2, {4})};
  const buffers::RemapPlan split{{}, {{0, 1, t.Devices(2, 2)}, {0, 0, t.Devices(0, 2)}}};
  ASSERT_TRUE(s.Remap({{2, 3}}, {{1}}, split, halves, kReuse).ok());
  ASSERT_TRUE(s.Destruct({{1}}).ok());
  EXPECT_EQ(*t.FetchRows(2), "aabb");
  EXPECT_EQ(*t.FetchRows(3), "ccdd");
  const buffers::RemapPlan joined{{}, {{1, 0, t.Devices(2, 2)}, {0, 0, t.Devices(0, 2)}}};
  ASSERT_TRUE(s.Remap({{4}}, {{2, 3}}, joined, {{t.Rows(0, 4, {8})}}, kReuse).ok());
  EXPECT_EQ(*t.FetchRows(4), "aabbccdd");
  const buffers::RemapPlan elsewhere{{}, {{0, 0, t.Devices(2, 2)}}};
  EXPECT_THAT(s.Remap({{5}}, {{2}}, elsewhere, {{t.Rows(2, 2, {4})}}, kReuse).ToString(),
              HasSubstr("input array 0 has no shard on device 2"));
  EXPECT_FALSE(t.Ready({5}).ok());
}

TEST(AliasTest, BitcastKeepsTheBytes) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Rows(0, 2, {8}), "abcdefgh").ok());
  const std::vector<buffers::ArraySpec> u32 = {t.Rows(0, 2, {2}, buffers::DType::kU32)};
  ASSERT_TRUE(s.Bitcast({{2}}, {{1}}, u32, kReuse).ok());
  EXPECT_EQ(*t.FetchRows(2), "abcdefgh");
  EXPECT_THAT(s.Bitcast({{3}}, {{1}}, {{t.Rows(0, 2, {4}, buffers::DType::kU32)}}, kReuse).ToString(),
              HasSubstr("4 bytes and would have 8"));
  EXPECT_FALSE(s.Bitcast({{4}}, {{1}}, {{t.Single(0, {8})}}, kReuse).ok());
  EXPECT_FALSE(s.Bitcast({{5}}, {{1}}, {}, kReuse).ok());
}

// jaxlib 0.12 drops an array as soon as it has asked for its contents.
TEST(StringArrayTest, AFetchIsAnsweredThoughItsArrayIsDroppedBeforeTheBytesCome) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  const buffers::ArraySpec spec{buffers::DType::kString, {}, buffers::Sharding::Replicated(t.Devices(0, 2), "")};
  ASSERT_TRUE(s.MakeArray(1, spec, {{1, {buffers::DType::kString, {}}, {0, 1}}}).ok());
  ASSERT_TRUE(s.Disassemble({{2, 3}}, 1, kReuse).ok());
  std::map<Handle, absl::Status> copied;
  for (Handle array : {1, 2, 3}) {
    s.CopyToHostBuffer(array, 30 + array, std::nullopt, [&, array](absl::Status status) { copied[array] = status; });
  }
  ASSERT_TRUE(s.Destruct({{1, 2}}).ok());
  ASSERT_TRUE(s.Delete({{3}}).ok());
  t.Run();
  EXPECT_TRUE(copied.empty());
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("text")).ok());
  t.Run();
  for (Handle array : {1, 2, 3}) {
    EXPECT_EQ(copied.at(array), absl::OkStatus()) << array;
    EXPECT_EQ(t.Await<Bytes>([&](auto done) { s.LookupHostBuffer(30 + array, std::move(done)); })->view(), "text");
  }
  EXPECT_EQ(s.StoreHostBuffer(1, Bytes::Copy("text")), absl::OkStatus()) << "the bytes were consumed";
}

TEST(StringArrayTest, AFetchThatWaitsWhenItsSessionEndsIsCancelled) {
  TestCluster t(1, 1);
  Session& s = t.Open();
  ASSERT_TRUE(s.MakeArray(1, t.Single(0, {}, buffers::DType::kString), {{1, {buffers::DType::kString, {}}, {0}}}).ok());
  absl::Status copied;
  s.CopyToHostBuffer(1, 30, std::nullopt, [&](absl::Status status) { copied = status; });
  ASSERT_TRUE(s.Destruct({{1}}).ok());
  t.session = nullptr;
  t.Run();
  EXPECT_THAT(copied.ToString(), HasSubstr("the session has ended"));
}

TEST(StringArrayTest, LiveInTheController) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  const auto spec = t.Single(0, {2}, buffers::DType::kString);
  ASSERT_TRUE(s.MakeArray(1, spec, {{1, {buffers::DType::kString, {2}}, {0}}}).ok());
  ASSERT_TRUE(s.Copy({{2}}, {{1}}, t.Devices(1, 1), std::nullopt, kReuse).ok());
  EXPECT_EQ(t.Ready({2}).message(), "still waiting");
  std::string got;
  s.CopyToHostBuffer(2, 30, std::nullopt, [](absl::Status) {});
  s.LookupHostBuffer(30, [&](absl::StatusOr<Bytes> bytes) { got = std::string(bytes->view()); });
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("serialized strings")).ok());
  t.Run();
  EXPECT_EQ(got, "serialized strings");
  EXPECT_EQ(*t.Fetch(1), "serialized strings");
  ASSERT_TRUE(s.Assemble(3, t.Rows(0, 2, {4}, buffers::DType::kString), {{1, 2}}, kReuse).ok());
  EXPECT_EQ(*t.FetchRows(3), "serialized stringsserialized strings");
  ASSERT_TRUE(s.Reshard({{4}}, {{3}}, {{t.Rows(0, 2, {4}, buffers::DType::kString)}}, kReuse).ok());
  EXPECT_EQ(s.Reshard({{5}}, {{3}}, {{t.Single(0, {4}, buffers::DType::kString)}}, kReuse).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(t.workers[0]->log.size(),
            2u + t.workers[0]->Count(Command::kDataflow));  // only welcome and peers: nothing here concerns a worker
}

}  // namespace
}  // namespace pw::controller
