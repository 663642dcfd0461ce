#include "pathways/worker/python/host_part.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/session/host_function.h"

namespace pw::worker {
namespace {

using ::testing::HasSubstr;

std::vector<DeviceId> Ids(const std::vector<int>& numbers) {
  std::vector<DeviceId> ids;
  for (int n : numbers) ids.push_back(DeviceId(n));
  return ids;
}

// A function on devices 4, 5 (of host 1) and 8, 9 (of host 2). Its argument lists them in another order, and is cut into four; its result is whole.
struct Example {
  Example() {
    session::HostFunction function{"f", "text", Ids({4, 5, 8, 9}), {}, {}};
    auto tiled = buffers::Sharding::Tiled(Ids({9, 4, 8, 5}), "", {{4}, {}});
    function.inputs.push_back({buffers::DType::kF32, {8}, *tiled, ""});
    function.outputs.push_back({buffers::DType::kS8, {3}, buffers::Sharding::Replicated(Ids({4, 5, 8, 9}), ""), ""});
    payload = Bytes::FromString(session::SerializeHostFunction(function));
    for (int local : {0, 1, 0, 1}) command.add_local_devices(local);
    for (uint32_t host : {1, 1, 2, 2}) command.add_hosts(host);
  }
  pathways::v1::Compile command;
  Bytes payload;
};

TEST(HostPartTest, DevicesOfSlicesStandForPhysicalOnes) {
  Example example;
  auto function = *session::ParseHostFunction(example.payload);
  function.physical = Ids({4, 5, 0, 1});
  example.payload = Bytes::FromString(session::SerializeHostFunction(function));
  const auto part = ReadHostPart(example.command, example.payload, HostId(2), 2);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->inputs[0].shards[0].device, DeviceId(1));
  EXPECT_EQ(LoadHeader(7, *part),
            "{\"load\":7,\"name\":\"f\",\"inputs\":[[1,0]],\"outputs\":[[0,1]],\"bound\":[[8,0],[9,1]]");
}

TEST(HostPartTest, AHostHasItsShardsInTheOrderOfEachArray) {
  const Example example;
  const auto part = ReadHostPart(example.command, example.payload, HostId(2), 2);
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_EQ(part->inputs[0].shards.size(), 2u);
  const LocalShard &first = part->inputs[0].shards[0], &second = part->inputs[0].shards[1];
  EXPECT_EQ(first.index, 0);
  EXPECT_EQ(first.device, DeviceId(9));
  EXPECT_EQ(first.local_device, 1);
  EXPECT_EQ(first.dims, (buffers::Dims{2}));
  EXPECT_EQ(first.bytes, 8);
  EXPECT_EQ(second.index, 2);
  EXPECT_EQ(second.local_device, 0);
  EXPECT_EQ(part->outputs[0].shards[0].bytes, 3);
  EXPECT_EQ(LoadHeader(7, *part), "{\"load\":7,\"name\":\"f\",\"inputs\":[[9,8]],\"outputs\":[[8,9]]");
}

TEST(HostPartTest, ACommandThatDoesNotFitIsRefused) {
  const Example example;
  EXPECT_FALSE(ReadHostPart(example.command, example.payload, HostId(3), 2).ok()) << "no device is here";
  EXPECT_THAT(ReadHostPart(example.command, example.payload, HostId(1), 1).status().message(), HasSubstr("no local device 1"));
  auto fewer = example.command;
  fewer.mutable_hosts()->RemoveLast();
  EXPECT_FALSE(ReadHostPart(fewer, example.payload, HostId(1), 2).ok());
  EXPECT_FALSE(ReadHostPart(example.command, Bytes::Copy("noise"), HostId(1), 2).ok());
}

TEST(HostPartTest, TheGreetingTellsTheProcessItsPlace) {
  pathways::v1::FunctionHosts hosts;
  hosts.set_self(1);
  hosts.add_hosts()->add_devices(0);
  hosts.add_hosts()->add_devices(4);
  EXPECT_EQ(Greeting(hosts, "host 'b'"), "\"host\":\"host 'b'\",\"self\":1,\"hosts\":[[0],[4]]");
}

}  // namespace
}  // namespace pw::worker
