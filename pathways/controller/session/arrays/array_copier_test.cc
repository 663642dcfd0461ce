#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::HasSubstr;
constexpr auto kMoveReuse = CopySemantics::kReuseInput;

TEST(CopyTest, BetweenHostsTheDataGoesDirectly) {
  TestCluster t(2, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Rows(0, 2, {4}), "abcd").ok());
  ASSERT_TRUE(s.Copy({2}, {1}, t.Devices(2, 2), std::nullopt, kMoveReuse).ok());
  EXPECT_EQ(*t.FetchRows(2), "abcd");
  EXPECT_EQ(t.hub.bytes, 4u);
  EXPECT_EQ(t.workers[0]->Count(Command::kMove), 1);
  EXPECT_EQ(t.workers[1]->Count(Command::kMove), 1);
  EXPECT_EQ(s.Spec(2)->sharding.devices(), t.Devices(2, 2));
}

TEST(CopyTest, WhereItAlreadyIsCostsNothingUnlessAskedFor) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {1}), "a").ok());
  ASSERT_TRUE(s.Copy({2}, {1}, std::nullopt, "device", kMoveReuse).ok());  // the default memory by its name
  EXPECT_EQ(t.workers[0]->Count(Command::kMove), 0);
  ASSERT_TRUE(s.Delete({{1}}).ok());
  EXPECT_EQ(*t.Fetch(2), "a");
  ASSERT_TRUE(s.Copy({{3}}, {{2}}, std::nullopt, std::nullopt, CopySemantics::kAlwaysCopy).ok());
  ASSERT_TRUE(s.Copy({{4}}, {{2}}, std::nullopt, "pinned_host", kMoveReuse).ok());
  t.Run();
  EXPECT_EQ(t.workers[0]->Count(Command::kMove), 2);
  EXPECT_EQ(t.workers[0]->log.back().move().receives(0).memory_kind(), "pinned_host");
  EXPECT_EQ(*t.Fetch(4), "a");
}

TEST(CopyTest, DonatedInputsAreDeletedAndFreed) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {1}), "a").ok());
  ASSERT_TRUE(s.Copy({{2}}, {{1}}, t.Devices(1, 1), std::nullopt, CopySemantics::kDonateInput).ok());
  EXPECT_TRUE(*s.IsDeleted(1));
  EXPECT_EQ(t.Ready({1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(t.Ready({1}).message()), HasSubstr("deleted or donated"));
  EXPECT_EQ(*t.Fetch(2), "a");
  EXPECT_EQ(t.workers[0]->num_shards(), 1u);
  ASSERT_TRUE(s.Copy({{3}}, {{2}}, std::nullopt, std::nullopt, CopySemantics::kDonateInput).ok());
  EXPECT_EQ(*t.Fetch(3), "a");
}

TEST(CopyTest, SeveralAtOnceFailApart) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {1}), "a").ok());
  ASSERT_TRUE(s.MakeErrorArray(2, t.Single(0, {1}), absl::DataLossError("gone")).ok());
  ASSERT_TRUE(s.Copy({{3, 4}}, {{1, 2}}, t.Devices(1, 1), std::nullopt, kMoveReuse).ok());
  EXPECT_EQ(*t.Fetch(3), "a");
  EXPECT_EQ(t.Ready({4}), absl::DataLossError("gone"));
  EXPECT_EQ(t.Ready({3, 4}), absl::DataLossError("gone"));
}

TEST(CopyTest, RefusesWhatMakesNoSense) {
  TestCluster t(1, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {1}), "a").ok());
  EXPECT_THAT(s.Copy({{10}}, {{1}}, t.Devices(0, 2), std::nullopt, kMoveReuse).ToString(), HasSubstr("one for each shard"));
  EXPECT_THAT(s.Copy({{11}}, {{1}}, t.Devices(7, 1), std::nullopt, kMoveReuse).ToString(), HasSubstr("device 7 does not exist"));
  EXPECT_THAT(s.Copy({{12}}, {{1}}, std::nullopt, "attic", kMoveReuse).ToString(), HasSubstr("attic"));
  EXPECT_FALSE(s.Copy({{13, 14}}, {{1}}, std::nullopt, std::nullopt, kMoveReuse).ok());
  EXPECT_EQ(s.Copy({{15}}, {{99}}, std::nullopt, std::nullopt, kMoveReuse).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(s.Copy({{16, 16}}, {{1, 1}}, std::nullopt, std::nullopt, kMoveReuse).ok());
  for (Handle h = 10; h < 17; ++h) EXPECT_FALSE(t.Ready({h}).ok()) << h;
}

TEST(ReshardTest, AnyToAny) {
  TestCluster t(2, 2);
  Session& s = t.Open();
  const std::string text = "aabbccddeeffgghhiijjkkll";  // [12, 2]
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {12, 2}), text).ok());
  buffers::ArraySpec replicated{buffers::DType::kU8, {12, 2}, buffers::Sharding::Replicated(t.Devices(0, 4), "")};
  const std::vector<buffers::ArraySpec> targets = {t.Rows(1, 3, {12, 2}), replicated, t.Single(3, {12, 2}),
                                                   t.Rows(0, 2, {12, 2})};
  Handle h = 2;
  for (const auto& target : targets) {
    ASSERT_TRUE(s.Reshard({{h}}, {{1}}, {{target}}, kMoveReuse).ok());
    ASSERT_TRUE(t.Ready({h}).ok()) << t.Ready({h});
    if (target.sharding.fully_replicated()) {
      EXPECT_EQ(*t.Fetch(h), text);
    } else {
      EXPECT_EQ(*t.FetchRows(h), text);
    }
    ++h;
  }
  ASSERT_TRUE(s.Reshard({{h}}, {{3}}, {{targets[0]}}, kMoveReuse).ok());  // from replicas
  EXPECT_EQ(*t.FetchRows(h), text);
}

TEST(ReshardTest, ToTheSameShardingCostsNothing) {
  TestCluster t(1, 4);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {4}), "abcd").ok());
  ASSERT_TRUE(s.Reshard({{2}}, {{1}}, {{t.Rows(0, 4, {4})}}, kMoveReuse).ok());
  EXPECT_EQ(*t.FetchRows(2), "abcd");
  EXPECT_EQ(t.workers[0]->Count(Command::kMove), 0);
}

TEST(ReshardTest, RefusesAnotherShape) {
  TestCluster t(1, 4);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {4}), "abcd").ok());
  EXPECT_THAT(s.Reshard({{2}}, {{1}}, {{t.Rows(0, 4, {8})}}, kMoveReuse).ToString(), HasSubstr("cannot turn"));
  EXPECT_FALSE(s.Reshard({{3}}, {{1}}, {{t.Rows(0, 4, {4}, buffers::DType::kS8)}}, kMoveReuse).ok());
  EXPECT_FALSE(s.Reshard({{4}}, {{1}}, {}, kMoveReuse).ok());
  EXPECT_FALSE(s.Reshard({{5}}, {{1}}, {{buffers::ArraySpec{buffers::DType::kU8, {4}, {}}}}, kMoveReuse).ok());
}

TEST(ReshardTest, ALostSenderFailsTheReceiver) {
  TestCluster t(2, 2);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Rows(0, 2, {4}), "abcd").ok());
  t.Run();
  t.workers[0]->hold_done = true;
  t.workers[1]->hold_done = true;
  ASSERT_TRUE(s.Copy({{2}}, {{1}}, t.Devices(2, 2), std::nullopt, kMoveReuse).ok());
  t.Run();
  t.workers[0]->Die();
  t.Run();
  const absl::Status status = t.Ready({2});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'w0'"));
}

}  // namespace
}  // namespace pw::controller
