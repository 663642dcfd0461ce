#include "pathways/dataflow/graph/placement.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/testing/random_graphs.h"

namespace pw::dataflow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Placement, OfAUniformClusterIsOneBlock) {
  std::vector<HostId> hosts;
  for (uint32_t s = 0; s < 2048; ++s) hosts.push_back(HostId(s / 8));
  const auto placement = Placement::FromHosts(hosts);
  ASSERT_TRUE(placement.ok());
  EXPECT_THAT(placement->blocks(), ElementsAre(Placement::Block{HostId(0), 256, 8}));
  EXPECT_EQ(placement->hosts().intervals().size(), 1u);
  EXPECT_EQ(placement->HostOf(2047), HostId(255));
}

TEST(Placement, OfACyclicLayoutIsOnePeriod) {
  const auto placement = Placement::FromHosts({HostId(4), HostId(5), HostId(4), HostId(5), HostId(4), HostId(5)});
  ASSERT_TRUE(placement.ok());
  EXPECT_THAT(placement->blocks(), ElementsAre(Placement::Block{HostId(4), 2, 1}));
  EXPECT_EQ(placement->repeat(), 3u);
  EXPECT_THAT(placement->ShardsOf(HostId(5)), ElementsAre(1, 3, 5));
  EXPECT_THAT(placement->ShardsOf(HostId(6)), IsEmpty());
}

// Compares all methods' answers with the list of hosts from which the placement was made.
TEST(Placement, AnswersLikeAList) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    const uint32_t hosts = 1 + random.Below(6), shards = 1 + random.Below(24);
    std::vector<HostId> host_of;
    for (uint32_t s = 0; s < shards; ++s)
      host_of.push_back(random.OneIn(3) || s == 0 ? HostId(random.Below(hosts))
                        : random.OneIn(2)         ? host_of[s - 1]
                                                  : host_of[s / 2]);
    const auto placement = Placement::FromHosts(host_of);
    ASSERT_TRUE(placement.ok());
    ASSERT_EQ(placement->num_shards(), shards);
    std::map<HostId, std::vector<uint32_t>> model;
    for (uint32_t s = 0; s < shards; ++s) {
      ASSERT_EQ(placement->HostOf(s), host_of[s]) << "seed " << seed;
      model[host_of[s]].push_back(s);
      ASSERT_GT(placement->EndOfHostAt(s), s);
      for (uint32_t same = s; same < placement->EndOfHostAt(s); ++same) ASSERT_EQ(host_of[same], host_of[s]);
    }
    ASSERT_EQ(placement->hosts().size(), model.size());
    uint32_t position = 0;
    for (const auto& [host, its_shards] : model) {
      ASSERT_EQ(placement->ShardsOf(host), its_shards);
      ASSERT_EQ(placement->NumShardsOf(host), its_shards.size());
      ASSERT_EQ(placement->hosts().At(position), host);
      ASSERT_EQ(placement->hosts().PositionOf(host), position++);
    }
    ASSERT_EQ(placement->hosts().PositionOf(HostId(hosts)), std::nullopt);
  }
}

TEST(Placement, FromOutsideIsChecked) {
  auto code = [](std::vector<Placement::Block> blocks, uint32_t repeat) {
    return Placement::Create(std::move(blocks), repeat).status().code();
  };
  EXPECT_EQ(code({{HostId(UINT32_MAX), 1, 1}}, 1), absl::StatusCode::kOk);
  EXPECT_EQ(code({}, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{HostId(0), 1, 1}}, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{HostId(0), 0, 1}}, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{HostId(UINT32_MAX), 2, 1}}, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{HostId(0), UINT32_MAX, UINT32_MAX}}, 1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{HostId(0), 1, 2}}, UINT32_MAX), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pw::dataflow
