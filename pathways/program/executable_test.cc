#include "pathways/program/executable.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/program/testing.h"
#include "xla/xla_data.pb.h"

namespace pw::program {
namespace {

namespace v1 = ::pathways::v1;
using ::testing::HasSubstr;

Executable FourDevices() {
  Executable e;
  e.id = ExecutableId(1);
  e.num_partitions = 4;
  for (int i = 0; i < 4; ++i) e.devices.push_back(DeviceId(i));
  e.hosts = {HostId(0)};
  return e;
}

v1::Compiled OneInOneOut() {
  v1::Compiled c;
  c.set_name("jit_f");
  xla::OpSharding rows;
  rows.set_type(xla::OpSharding::OTHER);
  rows.add_tile_assignment_dimensions(4);
  rows.add_tile_assignment_dimensions(1);
  rows.add_iota_reshape_dims(4);
  for (auto* value : {c.add_parameters(), c.add_outputs()}) {
    value->set_dtype(kF32);
    value->add_shard_dims(2);
    value->add_shard_dims(3);
    value->set_op_sharding(rows.SerializeAsString());
  }
  return c;
}

TEST(ExecutableTest, KnowsTheWholeArraysOfItsResults) {
  auto e = CompleteExecutable(FourDevices(), OneInOneOut());
  ASSERT_TRUE(e.ok()) << e.status();
  const auto spec = (*e)->output_spec(0);
  EXPECT_EQ(spec->dims, (buffers::Dims{8, 3}));
  EXPECT_EQ(spec->dtype, buffers::DType::kF32);
  EXPECT_EQ(spec->sharding.num_tiles(), 4);
  EXPECT_TRUE(CheckArgument(**e, 0, *spec).ok());
}

TEST(ExecutableTest, TokensAreOnAllDevicesWhereverTheCompilerPutsThem) {
  v1::Compiled c = OneInOneOut();
  xla::OpSharding first;
  first.set_type(xla::OpSharding::MAXIMAL);
  first.add_tile_assignment_devices(0);
  auto* token = c.mutable_outputs(0);
  token->set_dtype(static_cast<int>(buffers::DType::kToken));
  token->clear_shard_dims();
  token->set_op_sharding(first.SerializeAsString());
  auto e = CompleteExecutable(FourDevices(), c);
  ASSERT_TRUE(e.ok()) << e.status();
  EXPECT_TRUE((*e)->output_spec(0)->sharding.fully_replicated());
  token->set_dtype(kF32);  // unlike a token, a value with contents on one device only is not an array over all devices
  EXPECT_THAT(std::string(CompleteExecutable(FourDevices(), c).status().message()), HasSubstr("maximal sharding"));
}

TEST(ExecutableTest, RefusesArgumentsThatDoNotFit) {
  auto e = CompleteExecutable(FourDevices(), OneInOneOut());
  ASSERT_TRUE(e.ok());
  buffers::ArraySpec spec = *(*e)->output_spec(0);
  spec.dtype = buffers::DType::kF64;
  EXPECT_THAT(std::string(CheckArgument(**e, 0, spec).message()),
              HasSubstr("argument 0 of program jit_f has another element type: it is f64[8,3]"));
  spec = *(*e)->output_spec(0);
  spec.dims = {9, 3};
  EXPECT_FALSE(CheckArgument(**e, 0, spec).ok());
  spec.dims = {8};
  EXPECT_FALSE(CheckArgument(**e, 0, spec).ok());
  spec = *(*e)->output_spec(0);
  spec.sharding = spec.sharding.WithDevices({DeviceId(1), DeviceId(0), DeviceId(2), DeviceId(3)});
  EXPECT_THAT(std::string(CheckArgument(**e, 0, spec).message()), HasSubstr("lives on other devices"));
}

TEST(ExecutableTest, RefusesReportsThatMakeNoSense) {
  v1::Compiled c = OneInOneOut();
  c.mutable_outputs(0)->set_dtype(1234);
  EXPECT_THAT(std::string(CompleteExecutable(FourDevices(), c).status().message()), HasSubstr("result 0 of program jit_f"));
  c = OneInOneOut();
  c.mutable_outputs(0)->set_shard_dims(0, int64_t{1} << 62);
  EXPECT_FALSE(CompleteExecutable(FourDevices(), c).ok());
  c = OneInOneOut();
  c.add_donated_inputs(1);
  EXPECT_FALSE(CompleteExecutable(FourDevices(), c).ok());
}

}  // namespace
}  // namespace pw::program
