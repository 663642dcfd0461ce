#include "pathways/buffers/remap_plan.h"

#include <map>
#include <random>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/testing/random_arrays.h"

namespace pw::buffers {
namespace {

using testing::HasSubstr;

RemapMapping Map(int in, std::vector<ShardRange> from, int out, std::vector<ShardRange> to) {
  return {in, out, std::move(from), std::move(to)};
}

std::string Error(const RemapPlan& plan, std::vector<int> in, std::vector<int> out) {
  auto items = ResolveRemap(plan, in, out);
  EXPECT_EQ(items.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(items.status().message());
}

TEST(RemapPlanTest, SplitsAndConcatenates) {
  // One array of 4 becomes two of 2, by alternating shards.
  const RemapPlan split{{Map(0, {{0, 4, 2}}, 0, {{0, 2, 1}}), Map(0, {{1, 4, 2}}, 1, {{0, 2, 1}})}};
  EXPECT_EQ(*ResolveRemap(split, {4}, {2, 2}), (std::vector<RemapItem>{{0, 0, 0, 0}, {0, 1, 0, 2}, {1, 0, 0, 1}, {1, 1, 0, 3}}));
  const RemapPlan joined{{Map(1, {{0, 2, 1}}, 0, {{0, 1, 1}, {3, 4, 1}}), Map(0, {{0, 2, 1}}, 0, {{1, 3, 1}})}};
  EXPECT_EQ(*ResolveRemap(joined, {2, 2}, {4}), (std::vector<RemapItem>{{0, 0, 1, 0}, {0, 1, 0, 0}, {0, 2, 0, 1}, {0, 3, 1, 1}}));
}

TEST(RemapPlanTest, EmptyRangesAreNothing) {
  EXPECT_TRUE(ResolveRemap({}, {3}, {})->empty());
  const RemapPlan plan{{Map(0, {{0, 0, 1}, {1, 2, 1}, {2, 2, 5}}, 0, {{0, 1, 1}, {1, 1, 1}})}};
  EXPECT_EQ(*ResolveRemap(plan, {2}, {1}), (std::vector<RemapItem>{{0, 0, 0, 1}}));
}

TEST(RemapPlanTest, RefusesPlansThatDoNotFit) {
  EXPECT_THAT(Error({{Map(1, {{0, 1, 1}}, 0, {{0, 1, 1}})}}, {1}, {1}), HasSubstr("no input array 1, only 1"));
  EXPECT_THAT(Error({{Map(0, {{0, 1, 1}}, -1, {{0, 1, 1}})}}, {1}, {1}), HasSubstr("no output array -1"));
  EXPECT_THAT(Error({{Map(0, {{0, 2, 1}}, 0, {{0, 1, 1}})}}, {2}, {1}), HasSubstr("pairs 2 shards with 1"));
  EXPECT_THAT(Error({{Map(0, {{0, 1, 1}}, 0, {{0, 1, 1}})}}, {1}, {2}), HasSubstr("nothing feeds shard 1 of output array 0"));
  EXPECT_THAT(Error({{Map(0, {{0, 1, 1}, {0, 1, 1}}, 0, {{0, 1, 1}, {0, 1, 1}})}}, {1}, {1}), HasSubstr("mapped twice"));
  const int64_t max = std::numeric_limits<int64_t>::max();
  for (const ShardRange& r :
       {ShardRange{0, 3, 1}, {-1, 1, 1}, {0, 1, 0}, {0, 1, -1}, {2, 1, 1}, {0, max, 1}, {0, max, max}, {-max, max, 1}}) {
    EXPECT_THAT(Error({{Map(0, {r}, 0, {{0, 1, 1}})}}, {2}, {2}), HasSubstr("does not fit an array of 2 shards"));
    EXPECT_THAT(Error({{Map(0, {{0, 1, 1}}, 0, {r})}}, {2}, {2}), HasSubstr("does not fit an array of 2 shards"));
  }
  // The largest step is valid if the range has one index.
  EXPECT_EQ(ResolveRemap({{Map(0, {{1, 2, max}}, 0, {{0, 1, max}})}}, {2}, {1})->size(), 1u);
}

std::vector<DeviceId> DevicesOf(std::vector<int> ids) {
  std::vector<DeviceId> devices;
  for (int id : ids) devices.push_back(DeviceId(id));
  return devices;
}

// Resolves the plan with arrays on these devices.
absl::StatusOr<std::vector<RemapItem>> ResolveOn(const RemapPlan& plan, const std::vector<std::vector<DeviceId>>& in,
                                                 const std::vector<std::vector<DeviceId>>& out) {
  std::vector<ShardDevices> in_devices, out_devices;
  std::vector<int> in_shards, out_shards;
  for (const auto& devices : in) in_devices.push_back(&devices), in_shards.push_back(static_cast<int>(devices.size()));
  for (const auto& devices : out) out_devices.push_back(&devices), out_shards.push_back(static_cast<int>(devices.size()));
  absl::StatusOr<RemapPlan> numbered = NumberShards(plan, in_devices, out_devices);
  if (!numbered.ok()) return numbered.status();
  return ResolveRemap(*numbered, in_shards, out_shards);
}

TEST(RemapPlanTest, DevicesNameShards) {
  const auto whole = DevicesOf({7, 3, 5, 1}), odd = DevicesOf({3, 1}), even = DevicesOf({5, 7});
  const RemapPlan split{{}, {{0, 0, odd}, {0, 1, DevicesOf({7, 5})}}};
  EXPECT_EQ(*ResolveOn(split, {whole}, {odd, even}),
            (std::vector<RemapItem>{{0, 0, 0, 1}, {0, 1, 0, 3}, {1, 0, 0, 2}, {1, 1, 0, 0}}));
  const RemapPlan joined{{}, {{1, 0, even}, {0, 0, odd}}};
  EXPECT_EQ(*ResolveOn(joined, {odd, even}, {whole}),
            (std::vector<RemapItem>{{0, 0, 1, 1}, {0, 1, 0, 0}, {0, 2, 1, 0}, {0, 3, 0, 1}}));
}

TEST(RemapPlanTest, RefusesDevicesThatDoNotFit) {
  const auto a = DevicesOf({0, 1}), b = DevicesOf({1, 2});
  auto error = [&](std::vector<RemapDevices> entries, std::vector<std::vector<DeviceId>> in) {
    auto items = ResolveOn({{}, std::move(entries)}, in, {a});
    EXPECT_EQ(items.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(items.status().message());
  };
  EXPECT_THAT(error({{1, 0, a}}, {a}), HasSubstr("no input array 1, only 1"));
  EXPECT_THAT(error({{-1, 0, a}}, {a}), HasSubstr("no input array -1"));
  EXPECT_THAT(error({{0, 1, a}}, {a}), HasSubstr("no output array 1, only 1"));
  EXPECT_THAT(error({{0, -1, a}}, {a}), HasSubstr("no output array -1"));
  EXPECT_THAT(error({{0, 0, a}}, {b}), HasSubstr("input array 0 has no shard on device 0"));
  EXPECT_THAT(error({{0, 0, b}}, {b}), HasSubstr("output array 0 has no shard on device 2"));
  EXPECT_THAT(error({{0, 0, DevicesOf({1, 1})}}, {b}), HasSubstr("shard 1 of output array 0 is mapped twice"));
  EXPECT_THAT(error({{0, 0, a}, {1, 0, DevicesOf({1})}}, {a, b}), HasSubstr("shard 1 of output array 0 is mapped twice"));
  EXPECT_THAT(error({{0, 0, DevicesOf({1})}}, {b}), HasSubstr("nothing feeds shard 0 of output array 0"));
  EXPECT_THAT(error({{0, 0, a}}, {DevicesOf({0, 1, 0})}), HasSubstr("input array 0 has two shards on device 0"));
}

TEST(RemapPlanTest, AgreesWithAModelOfSingleIndices) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    std::vector<int> in(Pick(rng, 1, 3)), out(Pick(rng, 1, 3));
    for (int& n : in) n = static_cast<int>(Pick(rng, 1, 9));
    for (int& n : out) n = static_cast<int>(Pick(rng, 0, 9));
    // Random plan, valid or invalid; the model counts index by index.
    RemapPlan plan;
    std::map<std::pair<int, int64_t>, std::pair<int, int64_t>> model;
    bool good = true;
    for (size_t o = 0; o < out.size(); ++o) {
      for (int64_t at = 0, step = Pick(rng, 1, 3); at < std::min<int64_t>(step, out[o]); ++at) {
        ShardRange to{at, out[o], step};
        const int i = static_cast<int>(Pick(rng, 0, in.size() - 1));
        RemapMapping m{i, static_cast<int32_t>(o), {}, {to}};
        for (int64_t x = to.start; x < to.end; x += to.step) {
          const int64_t y = Pick(rng, 0, in[i] - 1);
          m.from.push_back({y, y + 1, Pick(rng, 1, 4)});
          good &= model.insert({{static_cast<int>(o), x}, {i, y}}).second;
        }
        plan.mappings.push_back(std::move(m));
        if (Pick(rng, 0, 20) == 0) {
          good &= plan.mappings.back().from.empty();
          plan.mappings.push_back(plan.mappings.back());
        }
        if (Pick(rng, 0, 20) == 0) break;
      }
    }
    int total = 0;
    for (int n : out) total += n;
    good &= model.size() == static_cast<size_t>(total);
    Shuffle(rng, plan.mappings);
    auto items = ResolveRemap(plan, in, out);
    ASSERT_EQ(items.ok(), good) << items.status();
    if (!good) continue;
    ASSERT_EQ(items->size(), model.size());
    auto expected = model.begin();
    for (const RemapItem& item : *items) {
      ASSERT_EQ(expected->first, std::make_pair(item.out_array, int64_t{item.out_shard}));
      ASSERT_EQ(expected->second, std::make_pair(item.in_array, int64_t{item.in_shard}));
      ++expected;
    }
  }
}

TEST(RemapPlanTest, TenThousandShardsAreQuick) {
  const RemapPlan plan{{Map(0, {{0, 10000, 2}, {1, 10000, 2}}, 0, {{0, 10000, 1}})}};
  auto items = *ResolveRemap(plan, {10000}, {10000});
  EXPECT_EQ(items[1].in_shard, 2);
  EXPECT_EQ(items[9999].in_shard, 9999);
}

}  // namespace
}  // namespace pw::buffers
