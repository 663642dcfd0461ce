// Conversions between the wire and our types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ifrt_proxy/serdes.pb.h"
#include "pathways/frontend/convert/attributes.h"
#include "pathways/frontend/convert/dtype.h"
#include "pathways/frontend/convert/layout.h"
#include "pathways/frontend/convert/sharding.h"
#include "pathways/frontend/convert/specs.h"
#include "pathways/frontend/convert/status.h"

namespace pw::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Proto>
xla::ifrt::ShardingProto Wrap(const std::string& type, const Proto& proto) {
  xla::ifrt::ShardingProto sharding;
  sharding.mutable_serialized_sharding()->set_type_name(type);
  sharding.mutable_serialized_sharding()->set_data(proto.SerializeAsString());
  return sharding;
}

std::vector<int64_t> TilesOf(const buffers::Sharding& sharding) {
  std::vector<int64_t> tiles;
  for (int i = 0; i < sharding.num_shards(); ++i) tiles.push_back(sharding.TileOfShard(i));
  return tiles;
}

TEST(DTypeTest, EveryKindOfTheWireComesBackAsItself) {
  const auto* kinds = xla::ifrt::DTypeProto::Kind_descriptor();
  for (int i = 0; i < kinds->value_count(); ++i) {
    xla::ifrt::DTypeProto proto;
    proto.set_kind(static_cast<xla::ifrt::DTypeProto::Kind>(kinds->value(i)->number()));
    if (proto.kind() == xla::ifrt::DTypeProto::KIND_UNSPECIFIED) continue;
    auto dtype = DTypeFromProto(proto);
    ASSERT_TRUE(dtype.ok()) << kinds->value(i)->name();
    EXPECT_EQ(DTypeToProto(*dtype).kind(), proto.kind()) << kinds->value(i)->name();
  }
}

TEST(DTypeTest, TheListsThatDifferFromXlasAreTranslated) {
  EXPECT_EQ(DTypeToProto(buffers::DType::kS1).kind(), 32);
  EXPECT_EQ(DTypeToProto(buffers::DType::kU1).kind(), 33);
  EXPECT_EQ(DTypeToProto(buffers::DType::kF4E2M1FN).kind(), 30);
  EXPECT_EQ(DTypeToProto(buffers::DType::kF8E8M0FNU).kind(), 31);
}

TEST(DTypeTest, UnknownKindIsNamed) {
  xla::ifrt::DTypeProto proto;
  proto.set_kind(static_cast<xla::ifrt::DTypeProto::Kind>(77));
  EXPECT_EQ(DTypeFromProto(proto).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(DTypeFromProto(proto).status().message(), HasSubstr("77"));
}

TEST(StatusTest, RoundTripKeepsCodeAndMessage) {
  const absl::Status status = absl::ResourceExhaustedError("device 3 out of memory");
  EXPECT_EQ(StatusFromProto(StatusToProto(status)), status);
  EXPECT_TRUE(StatusFromProto(StatusToProto(absl::OkStatus())).ok());
}

TEST(StatusTest, ForeignCodesAndBytesAreTamed) {
  tensorflow::StatusProto proto;
  proto.set_code(static_cast<tensorflow::error::Code>(1234));
  EXPECT_EQ(StatusFromProto(proto).code(), absl::StatusCode::kUnknown);
  tensorflow::StatusProto parsed;
  EXPECT_TRUE(parsed.ParseFromString(StatusToProto(absl::InternalError("\xff\xfe")).SerializeAsString()));
}

TEST(AttributesTest, RoundTripKeepsEveryKind) {
  Attributes attributes = {
      {"s", std::string("text")}, {"b", true}, {"i", int64_t{-5}}, {"l", std::vector<int64_t>{1, 13, 7}}, {"f", 2.5f}};
  EXPECT_EQ(AttributesFromProto(AttributesToProto(attributes)), attributes);
}

TEST(LayoutTest, RowMajorTextForEveryRank) {
  EXPECT_EQ(RowMajorLayoutText(0), "{}");
  EXPECT_EQ(RowMajorLayoutText(1), "{0}");
  EXPECT_EQ(RowMajorLayoutText(3), "{2,1,0}");
  EXPECT_EQ(RowMajorLayoutText(1 << 30), "{}");
}

TEST(LayoutTest, TextIsReadAndTheDefaultIsEmpty) {
  EXPECT_EQ(*LayoutFromText("{1,0}", 2), "");
  EXPECT_EQ(*LayoutFromText("{}", 0), "");
  xla::LayoutProto layout;
  ASSERT_TRUE(layout.ParseFromString(*LayoutFromText("{0,1}", 2)));
  EXPECT_THAT(layout.minor_to_major(), ElementsAre(0, 1));
}

TEST(LayoutTest, BadTextIsRefused) {
  for (const char* text : {"", "{", "}", "{0,0}", "{2,0}", "{-1,0}", "{0}", "{a,b}", "1,0"}) {
    EXPECT_EQ(LayoutFromText(text, 2).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(LayoutFromText("{1,0:T(8,128)}", 2).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(LayoutTest, BothMessageFormsAreRead) {
  xla::ifrt::LayoutProto proto;
  EXPECT_EQ(*LayoutFromProto(proto, 2), "");
  xla::ifrt::CompactLayoutProto compact;
  compact.add_major_to_minor(1);
  compact.add_major_to_minor(0);
  proto.mutable_serialized_layout()->set_type_name("xla::ifrt::CompactLayout");
  proto.mutable_serialized_layout()->set_data(compact.SerializeAsString());
  xla::LayoutProto layout;
  ASSERT_TRUE(layout.ParseFromString(*LayoutFromProto(proto, 2)));
  EXPECT_THAT(layout.minor_to_major(), ElementsAre(0, 1));
  xla::ifrt::PjRtLayoutProto pjrt;
  pjrt.mutable_xla_layout()->add_minor_to_major(1);
  pjrt.mutable_xla_layout()->add_minor_to_major(0);
  proto.mutable_serialized_layout()->set_type_name("xla::ifrt::PjRtLayout");
  proto.mutable_serialized_layout()->set_data(pjrt.SerializeAsString());
  EXPECT_EQ(*LayoutFromProto(proto, 2), "");
  proto.mutable_serialized_layout()->set_type_name("other");
  EXPECT_EQ(LayoutFromProto(proto, 2).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ShardingTest, SingleDeviceComesBackByteForByte) {
  xla::ifrt::SingleDeviceShardingProto proto;
  proto.set_device_id(3);
  proto.set_memory_kind("device");
  const auto wire = Wrap("xla::ifrt::SingleDeviceSharding", proto);
  auto sharding = ShardingFromProto(wire, {2, 2});
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_THAT(sharding->devices(), ElementsAre(DeviceId(3)));
  EXPECT_EQ(sharding->memory_kind(), "device");
  EXPECT_EQ(ShardingToProto(*sharding).SerializeAsString(), wire.SerializeAsString());
}

xla::ifrt::HloShardingProto HloOfFour() {
  xla::ifrt::HloShardingProto proto;
  for (int i : {4, 5, 6, 7}) proto.mutable_devices()->add_device_ids(i);
  proto.mutable_xla_op_sharding()->set_type(xla::OpSharding::OTHER);
  proto.mutable_xla_op_sharding()->add_tile_assignment_dimensions(2);
  proto.mutable_xla_op_sharding()->add_tile_assignment_dimensions(2);
  for (int i : {0, 2, 1, 3}) proto.mutable_xla_op_sharding()->add_tile_assignment_devices(i);
  return proto;
}

TEST(ShardingTest, HloShardingPlacesTilesByDevicePosition) {
  auto sharding = ShardingFromProto(Wrap("xla::ifrt::HloSharding", HloOfFour()), {4, 6});
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_THAT(sharding->devices(), ElementsAre(DeviceId(4), DeviceId(5), DeviceId(6), DeviceId(7)));
  EXPECT_THAT(TilesOf(*sharding), ElementsAre(0, 2, 1, 3));
}

TEST(ShardingTest, AShardingWithoutWireFormSurvivesTheWay) {
  auto tiled = buffers::Sharding::Tiled({DeviceId(1), DeviceId(0), DeviceId(2), DeviceId(3)}, "device", {{2, 1}, {1, 0, 0, 1}});
  ASSERT_TRUE(tiled.ok()) << tiled.status();
  auto back = ShardingFromProto(ShardingToProto(*tiled), {4, 4});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, *tiled);
}

TEST(ShardingTest, ConcreteEvenIsRowMajorOrReplicated) {
  xla::ifrt::ConcreteEvenShardingProto proto;
  for (int i = 0; i < 4; ++i) proto.mutable_devices()->add_device_ids(i);
  for (int d : {8, 4}) proto.mutable_shape()->add_dims(d);
  for (int d : {4, 2}) proto.mutable_shard_shape()->add_dims(d);
  auto sharding = ShardingFromProto(Wrap("xla::ifrt::ConcreteEvenSharding", proto), {8, 4});
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_THAT(TilesOf(*sharding), ElementsAre(0, 1, 2, 3));
  proto.set_is_fully_replicated(true);
  EXPECT_TRUE(ShardingFromProto(Wrap("xla::ifrt::ConcreteEvenSharding", proto), {8, 4})->fully_replicated());
}

TEST(ShardingTest, ConcreteWithAShortLastShard) {
  xla::ifrt::ConcreteShardingProto proto;
  for (int i = 0; i < 3; ++i) proto.mutable_devices()->add_device_ids(i);
  proto.mutable_shape()->add_dims(8);
  for (int d : {3, 3, 2}) proto.add_shard_shapes()->add_dims(d);
  auto sharding = ShardingFromProto(Wrap("xla::ifrt::ConcreteSharding", proto), {8});
  ASSERT_TRUE(sharding.ok()) << sharding.status();
  EXPECT_THAT(*sharding->ShardDims({8}, 2), ElementsAre(2));
  proto.mutable_shard_shapes(1)->set_dims(0, 2);
  EXPECT_EQ(ShardingFromProto(Wrap("xla::ifrt::ConcreteSharding", proto), {8}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(ShardingTest, ShardingParamUsesTheDeviceGridMinorAxisFirst) {
  xla::ifrt::ShardingParamShardingProto proto;
  for (int i = 0; i < 6; ++i) proto.mutable_devices()->add_device_ids(i);
  auto& param = *proto.mutable_sharding_param();
  for (int d : {2, 3}) param.add_dim_shards(d);
  for (int p : {0, 1}) param.add_permutation(p);
  for (int a : {3, 2}) param.add_axis_sizes(a);
  auto plain = ShardingFromProto(Wrap("xla::ifrt::ShardingParamSharding", proto), {4, 6});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(TilesOf(*plain), ElementsAre(0, 1, 2, 3, 4, 5));
  param.set_permutation(0, 1);
  param.set_permutation(1, 0);
  param.set_dim_shards(0, 3);
  param.set_dim_shards(1, 2);
  auto turned = ShardingFromProto(Wrap("xla::ifrt::ShardingParamSharding", proto), {6, 4});
  ASSERT_TRUE(turned.ok()) << turned.status();
  // Device i is at (i / 3, i % 3) of the grid; the first dimension is cut along the minor axis.
  EXPECT_THAT(TilesOf(*turned), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(ShardingTest, WhatSaysNotEnoughIsUnimplemented) {
  xla::ifrt::OpaqueShardingProto opaque;
  opaque.mutable_devices()->add_device_ids(1);
  EXPECT_TRUE(ShardingFromProto(Wrap("xla::ifrt::OpaqueSharding", opaque), {2}).ok());
  opaque.mutable_devices()->add_device_ids(2);
  EXPECT_EQ(ShardingFromProto(Wrap("xla::ifrt::OpaqueSharding", opaque), {2}).status().code(), absl::StatusCode::kUnimplemented);
  auto unknown = ShardingFromProto(Wrap("xla::ifrt::NextYearsSharding", opaque), {2});
  EXPECT_THAT(unknown.status().message(), HasSubstr("NextYearsSharding"));
}

TEST(ShardingTest, HostileShardingsAreRefused) {
  xla::ifrt::ShardingProto garbage;
  for (const char* type : {"SingleDevice", "Hlo", "Concrete", "ConcreteEven", "Opaque", "ShardingParam"}) {
    garbage.mutable_serialized_sharding()->set_type_name(absl::StrCat("xla::ifrt::", type, "Sharding"));
    garbage.mutable_serialized_sharding()->set_data("\xff\xff\xff\xff");
    EXPECT_FALSE(ShardingFromProto(garbage, {2}).ok()) << type;
    if (std::string(type) == "SingleDevice") continue;  // device 0
    garbage.mutable_serialized_sharding()->set_data("");
    EXPECT_FALSE(ShardingFromProto(garbage, {2}).ok()) << type;
  }
  auto hlo = HloOfFour();
  EXPECT_FALSE(ShardingFromProto(Wrap("xla::ifrt::HloSharding", hlo), {4}).ok());  // rank
  hlo.mutable_devices()->add_device_ids(8);
  EXPECT_FALSE(ShardingFromProto(Wrap("xla::ifrt::HloSharding", hlo), {4, 4}).ok());  // count
  xla::ifrt::ShardingParamShardingProto param;
  param.mutable_devices()->add_device_ids(0);
  param.mutable_sharding_param()->add_dim_shards(1);
  param.mutable_sharding_param()->add_axis_sizes(1);
  for (int axis : {INT32_MIN, -1, 1, INT32_MAX}) {
    param.mutable_sharding_param()->clear_permutation();
    param.mutable_sharding_param()->add_permutation(axis);
    EXPECT_FALSE(ShardingFromProto(Wrap("xla::ifrt::ShardingParamSharding", param), {4}).ok()) << axis;
  }
  xla::ifrt::ConcreteEvenShardingProto even;
  even.mutable_devices()->add_device_ids(0);
  even.mutable_shape()->add_dims(int64_t{1} << 62);
  even.mutable_shard_shape()->add_dims(1);
  EXPECT_FALSE(ShardingFromProto(Wrap("xla::ifrt::ConcreteEvenSharding", even), {int64_t{1} << 62}).ok());
}

TEST(SpecsTest, HostLayoutKeepsPresentButEmptyStrides) {
  xla::ifrt::DTypeProto dtype;
  dtype.set_kind(xla::ifrt::DTypeProto::KIND_F32);
  xla::ifrt::ShapeProto scalar;
  xla::ifrt::proto::ByteStrides strides;
  EXPECT_FALSE(HostLayoutFromProto(dtype, scalar, nullptr)->byte_strides.has_value());
  EXPECT_TRUE(HostLayoutFromProto(dtype, scalar, &strides)->byte_strides.has_value());
  strides.add_strides(4);
  EXPECT_EQ(HostLayoutFromProto(dtype, scalar, &strides).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SpecsTest, RemapPlansKeepTheirRanges) {
  xla::ifrt::RemapPlanProto proto;
  auto& mapping = *proto.add_mappings();
  mapping.set_out_array(1);
  mapping.add_from_start(0);
  mapping.add_from_end(4);
  mapping.add_from_step(2);
  mapping.add_to_start(0);
  mapping.add_to_end(2);
  mapping.add_to_step(1);
  auto plan = RemapPlanFromProto(proto);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->mappings[0].out_array, 1);
  EXPECT_EQ(plan->mappings[0].from[0].step, 2);
  mapping.clear_to_step();
  EXPECT_EQ(RemapPlanFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SpecsTest, MessagesOfALaterVersionAreRefused) {
  xla::ifrt::DTypeProto dtype;
  dtype.set_kind(xla::ifrt::DTypeProto::KIND_F32);
  xla::ifrt::SingleDeviceShardingProto single;
  xla::ifrt::ArraySpecProto spec;
  *spec.mutable_dtype() = dtype;
  *spec.mutable_sharding() = Wrap("xla::ifrt::SingleDeviceSharding", single);
  EXPECT_TRUE(SpecFromProto(spec).ok());
  spec.set_version_number(1);
  EXPECT_THAT(SpecFromProto(spec).status().ToString(), HasSubstr("array specs up to version 0"));
  dtype.set_version_number(1);
  EXPECT_EQ(DTypeFromProto(dtype).status().code(), absl::StatusCode::kUnimplemented);
  single.set_version_number(1);
  EXPECT_EQ(ShardingFromProto(Wrap("xla::ifrt::SingleDeviceSharding", single), {}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(SpecsTest, RemapPlansOfNewerClientsNameDevices) {
  xla::ifrt::RemapPlanProto proto;
  proto.set_version_number(6);
  auto& output = *proto.add_input_devices_for_output();
  output.set_out_array(2);
  for (int in : {1, 0}) {
    auto& input = *output.add_input_devices();
    input.set_in_array(in);
    input.mutable_device_list()->add_device_ids(4 + in);
  }
  auto plan = RemapPlanFromProto(proto);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->mappings.empty());
  ASSERT_EQ(plan->by_device.size(), 2u);
  EXPECT_EQ(plan->by_device[0].in_array, 1);
  EXPECT_EQ(plan->by_device[1].out_array, 2);
  EXPECT_EQ(plan->by_device[1].devices, std::vector<DeviceId>{DeviceId(4)});
  proto.add_mappings();
  EXPECT_EQ(RemapPlanFromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
  proto.clear_mappings();
  proto.set_version_number(7);
  EXPECT_EQ(RemapPlanFromProto(proto).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace pw::frontend
