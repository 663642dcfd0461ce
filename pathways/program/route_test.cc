#include "pathways/program/route.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::program {
namespace {

using buffers::ArraySpec;
using buffers::Dims;
using buffers::DType;
using buffers::Sharding;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<ArraySpec> CutByRows(DType dtype, Dims dims, std::vector<int> devices, int along = 0) {
  auto spec = std::make_shared<ArraySpec>();
  spec->dtype = dtype;
  spec->dims = dims;
  std::vector<DeviceId> ids;
  for (int device : devices) ids.push_back(DeviceId(device));
  buffers::Tiles tiles;
  tiles.counts.assign(dims.size(), 1);
  tiles.counts[along] = static_cast<int64_t>(devices.size());
  spec->sharding = *Sharding::Tiled(std::move(ids), "", std::move(tiles));
  return spec;
}

// 8 rows of 4 floats on devices 0 and 1; experts of two groups, on devices 2 and 3, and on device 4, each with 3 slots.
Node Out() {
  Node node;
  node.kind = NodeKind::kRoute;
  node.groups = 2;
  node.takes = {CutByRows(DType::kF32, {8, 4}, {0, 1}), CutByRows(DType::kS32, {8}, {0, 1})};
  node.outputs = {CutByRows(DType::kF32, {2, 3, 4}, {2, 3}), CutByRows(DType::kF32, {1, 3, 4}, {4}),
                  CutByRows(DType::kS32, {2, 3}, {2, 3}),    CutByRows(DType::kS32, {1, 3}, {4}),
                  CutByRows(DType::kS32, {2}, {2, 3}),       CutByRows(DType::kS32, {1}, {4})};
  return node;
}

Node Back() {
  const Node out = Out();
  Node node;
  node.kind = NodeKind::kRoute;
  node.back = true;
  node.groups = 2;
  node.takes.assign(out.outputs.begin(), out.outputs.begin() + 4);
  node.outputs = {out.takes[0]};
  return node;
}

TEST(Route, ItsShapeIsThatOfItsArrays) {
  for (const Node& node : {Out(), Back()}) {
    const auto shape = ShapeOfRoute(node);
    ASSERT_TRUE(shape.ok()) << shape.status();
    EXPECT_EQ(shape->back, node.back);
    EXPECT_EQ(shape->rows, 8);
    EXPECT_EQ(shape->row_bytes, 16);
    EXPECT_EQ(shape->capacity, 3);
    EXPECT_THAT(shape->row_dims, ElementsAre(4));
    EXPECT_THAT(shape->experts, ElementsAre(2, 1));
    EXPECT_EQ(shape->num_experts(), 3);
    EXPECT_EQ(shape->has_slots, !node.back);
  }
  Node plain = Out();
  plain.outputs.resize(2);
  EXPECT_FALSE(ShapeOfRoute(plain)->has_slots);
}

void ExpectRefused(const Node& node, const std::string& what) {
  const auto shape = ShapeOfRoute(node);
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.status().message()), HasSubstr(what));
}

TEST(Route, ArraysThatDoNotFitAreRefused) {
  Node node = Out();
  node.groups = 0;
  ExpectRefused(node, "needs a group");
  node.groups = 3;
  ExpectRefused(node, "a route to 3 groups has 2 inputs and 3 or 9 outputs, not 2 and 6");
  node = Out();
  node.takes[1] = CutByRows(DType::kS64, {8}, {0, 1});
  ExpectRefused(node, "must be s32[8]");
  node.takes[1] = CutByRows(DType::kS32, {9}, {0, 1});
  ExpectRefused(node, "must be s32[8]");
  node.takes[1] = CutByRows(DType::kS32, {8}, {1, 0});
  ExpectRefused(node, "must be cut as its rows, and be on the same devices");
  node.takes[1] = CutByRows(DType::kS32, {8}, {0});
  ExpectRefused(node, "must be cut as its rows");
  node = Out();
  node.takes[0] = CutByRows(DType::kF32, {8, 4}, {0, 1}, 1);
  ExpectRefused(node, "cut along another dimension");
  node = Out();
  node.outputs[1] = CutByRows(DType::kF32, {1, 2, 4}, {4});
  ExpectRefused(node, "output 1 must hold 3 rows of the source for each expert");
  node.outputs[1] = CutByRows(DType::kF64, {1, 3, 4}, {4});
  ExpectRefused(node, "output 1 must hold");
  node.outputs[1] = CutByRows(DType::kF32, {1, 3, 5}, {4});
  ExpectRefused(node, "output 1 must hold");
  node = Out();
  node.outputs[2] = CutByRows(DType::kS32, {2, 4}, {2, 3});
  ExpectRefused(node, "slots 0 must be s32[2,3]");
  node = Back();
  node.takes.pop_back();
  ExpectRefused(node, "has 4 inputs and 1 output, not 3 and 1");
}

TEST(Route, RowsAndSlotsHaveNumbersThatFit) {
  Node node = Out();
  node.outputs[0] = CutByRows(DType::kF32, {int64_t{1} << 33, 3, 0}, {2, 3});
  node.takes[0] = CutByRows(DType::kF32, {8, 0}, {0, 1});
  node.outputs[1] = CutByRows(DType::kF32, {1, 3, 0}, {4});
  ExpectRefused(node, "has more than 2147483647 experts");
  node.outputs.resize(2);
  node.outputs[0] = CutByRows(DType::kF32, {1 << 20, 1 << 20, 0}, {2, 3});
  node.outputs[1] = CutByRows(DType::kF32, {1, 1 << 20, 0}, {4});
  ExpectRefused(node, "more than 2147483647 slots together");
}

}  // namespace
}  // namespace pw::program
