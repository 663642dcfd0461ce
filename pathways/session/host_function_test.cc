#include "pathways/session/host_function.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/v1/session.pb.h"

namespace pw::session {
namespace {

using ::testing::HasSubstr;

buffers::ArraySpec Spec(std::vector<DeviceId> devices) {
  return {buffers::DType::kF32, {4}, buffers::Sharding::Replicated(std::move(devices), ""), ""};
}

HostFunction Example() {
  HostFunction function{"f", "text", {DeviceId(3), DeviceId(1)}, {}, {}};
  function.inputs.push_back(Spec({DeviceId(1), DeviceId(3)}));
  function.outputs.push_back(Spec({DeviceId(3), DeviceId(1)}));
  return function;
}

absl::StatusOr<HostFunction> Reread(const HostFunction& function) {
  return ParseHostFunction(Bytes::FromString(SerializeHostFunction(function)));
}

TEST(HostFunction, ComesBackAsItWasWritten) {
  const auto read = Reread(Example());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, "f");
  EXPECT_EQ(read->text, "text");
  EXPECT_EQ(read->devices, Example().devices);
  ASSERT_EQ(read->inputs.size(), 1u);
  EXPECT_EQ(read->inputs[0].sharding.devices(), Example().inputs[0].sharding.devices());
  EXPECT_EQ(read->outputs[0].dims, Example().outputs[0].dims);
}

TEST(HostFunction, PhysicalDevicesAreThoseOfAllDevicesOrNone) {
  HostFunction function = Example();
  function.physical = {DeviceId(7), DeviceId(8)};
  const auto read = Reread(function);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->physical, function.physical);
  function.physical.pop_back();
  EXPECT_THAT(Reread(function).status().message(), HasSubstr("has 2 devices and 1 physical ones"));
}

TEST(HostFunction, ArraysOnOtherDevicesAreRefused) {
  HostFunction function = Example();
  function.inputs[0] = Spec({DeviceId(1), DeviceId(2)});
  EXPECT_THAT(Reread(function).status().message(), HasSubstr("argument 0 of the Python function f is on devices 1,2"));
}

TEST(HostFunction, DevicesAreDistinctAndNotNone) {
  HostFunction function = Example();
  function.devices = {DeviceId(1), DeviceId(1)};
  EXPECT_FALSE(Reread(function).ok());
  function.devices = {};
  EXPECT_FALSE(Reread(function).ok());
}

TEST(HostFunction, AFunctionThatIsTooLargeSaysWhatToDo) {
  HostFunction function = Example();
  function.text.assign(kMostHostFunctionBytes, 'x');
  EXPECT_THAT(Reread(function).status().message(), HasSubstr("pass large arrays as arguments"));
}

TEST(HostFunction, AnArgumentOfAnotherOrderOfDevicesIsRefused) {
  const HostFunction function = Example();
  EXPECT_TRUE(CheckFunctionArgument(function, 0, function.inputs[0]).ok());
  EXPECT_FALSE(CheckFunctionArgument(function, 0, Spec({DeviceId(3), DeviceId(1)})).ok());
}

TEST(HostFunction, NoiseDoesNotParse) { EXPECT_FALSE(ParseHostFunction(Bytes::FromString(std::string(100, '\xff'))).ok()); }

}  // namespace
}  // namespace pw::session
