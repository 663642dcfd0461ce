#include "plugins/pjrt_cpu/programs/whole_axes.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::pjrt_cpu {
namespace {

using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

std::vector<int64_t> Iota(int64_t n) {
  std::vector<int64_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(ParseMeshes, ReadsAxesAndTheOrderOfDevices) {
  const std::vector<Mesh> meshes =
      ParseMeshes(R"({mesh = #sdy.mesh<["x"=4, "y"=2]>, other = #sdy.mesh<["a \" b"=2], device_ids=[1, 0]>})");
  ASSERT_THAT(meshes, SizeIs(2));
  EXPECT_EQ(meshes[0].text, R"(mesh<["x"=4, "y"=2]>)");
  EXPECT_EQ(meshes[0].size, 8);
  EXPECT_EQ(meshes[0].axes[0].stride, 2);
  EXPECT_EQ(meshes[0].axes[1].stride, 1);
  EXPECT_THAT(meshes[0].devices, IsEmpty());
  EXPECT_EQ(meshes[1].axes[0].name, R"("a \" b")");
  EXPECT_EQ(meshes[1].devices, (std::vector<int64_t>{1, 0}));
}

TEST(ParseMeshes, SkipsWhatIsNoMesh) {
  for (const char* text : {"", "mesh", "#sdy.mesh", "#sdy.mesh<[", R"(#sdy.mesh<["x)", R"(#sdy.mesh<["x\)",
                           R"(#sdy.mesh<["x"=>])", R"(#sdy.mesh<["x"=0]>)", R"(#sdy.mesh<["x"=-1]>)", R"(#sdy.mesh<["x"=8])",
                           R"(#sdy.mesh<["x"=99999999999999999999]>)", R"(#sdy.mesh<["x"=16777216, "y"=16777216]>)",
                           R"(#sdy.mesh<["x"=2], device_ids=[0]>)", R"(#sdy.mesh<["x"=2], device_ids=[0, 2]>)"}) {
    EXPECT_THAT(ParseMeshes(text), IsEmpty()) << text;
  }
  EXPECT_THAT(ParseMeshes(R"(#sdy.sharding<@mesh, [{}]>, #sdy.mesh<["x"=x]>, #sdy.mesh<["x"=2]>)"), SizeIs(1));
}

TEST(OnWholeAxes, TakesPartsOfAnAxisAway) {
  const std::vector<Mesh> meshes = ParseMeshes(R"(#sdy.mesh<["x"=8]>)");
  EXPECT_THAT(OnWholeAxes({{2, 4}, Iota(8), 2}, meshes), Optional(std::string(R"(#sdy.sharding<mesh<["x"=8]>, [{}, {}]>)")));
  EXPECT_THAT(OnWholeAxes({{2, 4}, Iota(8), 1}, meshes), Optional(std::string(R"(#sdy.sharding<mesh<["x"=8]>, [{}]>)")));
}

TEST(OnWholeAxes, KeepsTheAxesBeforeThePart) {
  const std::vector<Mesh> meshes = ParseMeshes(R"(#sdy.mesh<["a"=2, "b"=4]>)");
  EXPECT_THAT(OnWholeAxes({{4, 2}, Iota(8), 2}, meshes),
              Optional(std::string(R"(#sdy.sharding<mesh<["a"=2, "b"=4]>, [{"a"}, {}]>)")));
}

TEST(OnWholeAxes, LeavesTilingsThatHaveAName) {
  const std::vector<Mesh> meshes = ParseMeshes(R"(#sdy.mesh<["a"=2, "one"=1, "b"=4]>)");
  EXPECT_EQ(OnWholeAxes({{8}, Iota(8), 1}, meshes), std::nullopt);
  EXPECT_EQ(OnWholeAxes({{1, 2, 4}, Iota(8), 3}, meshes), std::nullopt);
  EXPECT_EQ(OnWholeAxes({{2, 4}, Iota(8), 1}, meshes), std::nullopt);  // the devices of a row hold the same part
  EXPECT_EQ(OnWholeAxes({{4, 2}, {0, 4, 1, 5, 2, 6, 3, 7}, 2}, meshes), std::nullopt);
}

TEST(OnWholeAxes, AsksTheMeshesThatHaveTheDevices) {
  EXPECT_EQ(OnWholeAxes({{2, 4}, Iota(8), 2}, {}), std::nullopt);
  EXPECT_EQ(OnWholeAxes({{2, 4}, Iota(8), 2}, ParseMeshes(R"(#sdy.mesh<["x"=16]>)")), std::nullopt);
  EXPECT_EQ(OnWholeAxes({{2, 4}, Iota(8), 2}, ParseMeshes(R"(#sdy.mesh<["x"=8]> #sdy.mesh<["a"=2, "b"=4]>)")), std::nullopt);
  EXPECT_THAT(OnWholeAxes({{2, 2}, Iota(4), 2}, ParseMeshes(R"(#sdy.mesh<["x"=8]> #sdy.mesh<["x"=4]> #sdy.mesh<["y"=4]>)")),
              Optional(std::string(R"(#sdy.sharding<mesh<["x"=4]>, [{}, {}]>)")));
}

// Random meshes with devices in any order. Their axes are assigned to dimensions in any order, or left out.
TEST(OnWholeAxes, LeavesWhateverIsMadeOfWholeAxes) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> sizes(1 + random() % 4);
    int64_t n = 1;
    std::string text = "#sdy.mesh<[";
    for (size_t i = 0; i < sizes.size(); ++i) {
      n *= sizes[i] = 1 + random() % 4;
      text += (i == 0 ? "\"" : ", \"") + std::string(1, 'a' + i) + "\"=" + std::to_string(sizes[i]);
    }
    std::vector<int64_t> devices = Iota(n), order = Iota(sizes.size());
    std::shuffle(devices.begin(), devices.end(), random);
    std::shuffle(order.begin(), order.end(), random);
    text += "], device_ids=[";
    for (int64_t i = 0; i < n; ++i) text += (i == 0 ? "" : ", ") + std::to_string(devices[i]);
    const std::vector<Mesh> meshes = ParseMeshes(text + "]>");
    ASSERT_THAT(meshes, SizeIs(1)) << text;

    Tiling tiling{std::vector<int64_t>(4, 1), std::vector<int64_t>(n), 3};  // the last one for axes left out
    std::vector<size_t> dimension_of(order.size());
    for (size_t& dimension : dimension_of) dimension = random() % 4;
    std::sort(dimension_of.begin(), dimension_of.end());
    for (size_t i = 0; i < order.size(); ++i) tiling.parts[dimension_of[i]] *= sizes[order[i]];
    for (int64_t place = 0; place < n; ++place) {
      int64_t tile = 0;
      for (int64_t axis : order) tile = tile * sizes[axis] + place / meshes[0].axes[axis].stride % sizes[axis];
      tiling.devices[tile] = devices[place];
    }
    EXPECT_EQ(OnWholeAxes(tiling, meshes), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace pw::pjrt_cpu
