#include "pathways/dispatch/plan_files.h"

#include <algorithm>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/buffers/testing/random_arrays.h"
#include "pathways/dispatch/testing/test_topology.h"

namespace pw::dispatch {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;

const std::string kLocation = "/checkpoint";
const std::string kName = "x";
const std::string kUser = "ada";

FileCall Call(const buffers::ArraySpec& spec) { return {SessionId(1), ArrayId(5), &spec, &kLocation, &kName, &kUser}; }

std::map<HostId, std::vector<Command>> Save(const resource::Topology& topology, const buffers::ArraySpec& spec, WriteLoad* load) {
  Recorder recorder(topology);
  PlanSave(topology, Call(spec), "save", load, [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
  return recorder.Commands();
}

std::map<HostId, std::vector<Command>> Load(const resource::Topology& topology, const buffers::ArraySpec& spec) {
  Recorder recorder(topology);
  PlanLoad(topology, Call(spec), [&](HostId h) { return recorder.NameOp(h); }, recorder.outbox);
  return recorder.Commands();
}

TEST(PlanSaveTest, ReplicasAreWrittenOnce) {
  const auto topology = TestTopology(2, 2);
  // Rows in halves over the devices of each host; both hosts have the whole.
  const buffers::ArraySpec spec{
      buffers::DType::kF32, {5, 3}, *buffers::Sharding::Tiled(DeviceRange(0, 4), "", {{2, 1}, {0, 1, 0, 1}})};
  WriteLoad load;
  auto commands = Save(topology, spec, &load);
  ASSERT_EQ(commands[HostId(0)].size(), 1u);
  ASSERT_EQ(commands[HostId(1)].size(), 1u);
  const auto& first = commands[HostId(0)][0].save_tiles();
  const auto& second = commands[HostId(1)][0].save_tiles();
  ASSERT_EQ(first.tiles_size(), 1) << "each writes one of the two tiles";
  ASSERT_EQ(second.tiles_size(), 1);
  EXPECT_THAT(first.tiles(0).start(), ElementsAre(0, 0));
  EXPECT_THAT(second.tiles(0).start(), ElementsAre(3, 0));
  EXPECT_EQ(second.tiles(0).shard(), 3);
  EXPECT_THAT(first.stored().chunks(), ElementsAre(3, 3));
  EXPECT_EQ(first.host(), "host 'h0' of island 'island0'");
}

TEST(PlanSaveTest, ArraysThatAllHostsHaveAreSharedOut) {
  const auto topology = TestTopology(4, 1);
  const buffers::ArraySpec spec{buffers::DType::kU8, {8}, buffers::Sharding::Replicated(DeviceRange(0, 4), "")};
  WriteLoad load;
  for (int array = 0; array < 8; ++array) Save(topology, spec, &load);
  for (int host = 0; host < 4; ++host) EXPECT_EQ(load[HostId(host)], 16) << host;
}

// The tiles of a plan, each with the shard that holds it: together they are the array, each part once, on the host that has it.
TEST(PlanFilesTest, RandomArraysAreWrittenAndReadWholeByTheHostsThatHaveThem) {
  std::mt19937 rng(7);
  const auto topology = TestTopology(6, 10);
  int written = 0;
  for (int round = 0; round < 3000; ++round) {
    const buffers::Dims dims = buffers::RandomDims(rng);
    const buffers::ArraySpec spec{buffers::DType::kS16, dims,
                                  buffers::RandomSharding(rng, dims.size(), static_cast<int>(rng() % 20))};
    if (!spec.sharding.CheckFits(dims).ok() || spec.sharding.num_shards() > 40) continue;
    WriteLoad load;
    int64_t elements = 0;
    std::set<buffers::Dims> starts;
    for (auto& [host, list] : Save(topology, spec, &load)) {
      ASSERT_EQ(list.size(), 1u);
      const auto& save = list[0].save_tiles();
      for (const auto& tile : save.tiles()) {
        const absl::StatusOr<buffers::Region> region = spec.sharding.ShardRegion(dims, tile.shard());
        ASSERT_TRUE(region.ok()) << region.status();
        EXPECT_EQ(topology.FindDevice(spec.sharding.devices()[tile.shard()])->host, host);
        EXPECT_TRUE(std::equal(tile.start().begin(), tile.start().end(), region->start.begin(), region->start.end()));
        for (size_t d = 0; d < dims.size(); ++d) EXPECT_EQ(region->start[d] % save.stored().chunks(static_cast<int>(d)), 0);
        EXPECT_TRUE(starts.insert(region->start).second) << "written twice";
        elements += region->elements();
        ++written;
      }
    }
    EXPECT_EQ(elements, buffers::Region({buffers::Dims(dims.size(), 0), dims}).elements());

    std::set<int> shards;
    for (auto& [host, list] : Load(topology, spec)) {
      std::set<buffers::Dims> tiles;
      for (const auto& tile : list[0].load_tiles().tiles()) {
        for (const auto& placement : tile.placements()) {
          const buffers::Region region = *spec.sharding.ShardRegion(dims, placement.shard());
          EXPECT_TRUE(
              std::equal(region.size.begin(), region.size.end(), tile.region().size().begin(), tile.region().size().end()));
          EXPECT_TRUE(
              std::equal(region.start.begin(), region.start.end(), tile.region().start().begin(), tile.region().start().end()));
          const resource::Device& device = *topology.FindDevice(spec.sharding.devices()[placement.shard()]);
          EXPECT_EQ(device.host, host);
          EXPECT_EQ(device.local_ordinal, placement.local_device());
          EXPECT_TRUE(shards.insert(placement.shard()).second);
        }
      }
    }
    EXPECT_EQ(static_cast<int>(shards.size()), spec.sharding.num_shards());
  }
  EXPECT_GT(written, 1000);
}

}  // namespace
}  // namespace pw::dispatch
