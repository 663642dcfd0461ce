// Tests the device runtime with a real plugin, the CPU one.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/device/pjrt/runtime.h"
#include "xla/compile_options.pb.h"
#include "xla/executable_metadata.pb.h"
#include "xla/xla_data.pb.h"
#include "xla/xplane.pb.h"

namespace pw::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
absl::StatusOr<T> Wait(const Future<T>& future) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
  future.OnReady([promise](const absl::StatusOr<T>& value) { promise->set_value(value); });
  return promise->get_future().get();
}

// One client for all tests: a process has one CPU device runtime.
DeviceRuntime* Runtime() {
  static DeviceRuntime* const runtime = [] {
    pjrt::RuntimeOptions options{PW_TEST_PLUGIN, {{"cpu_device_count", int64_t{4}}}};
    auto made = pjrt::MakeRuntime(options);
    if (!made.ok()) {
      ADD_FAILURE() << made.status().ToString();
      abort();
    }
    return made->release();
  }();
  return runtime;
}

class PjrtTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(PW_TEST_PLUGIN).empty()) GTEST_SKIP() << "built without the CPU plugin";
  }
};

Bytes FloatBytes(const std::vector<float>& values) {
  return Bytes::Copy({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}
template <class T = float>
std::vector<T> Values(DeviceBuffer* buffer) {
  absl::StatusOr<Bytes> bytes = Wait(buffer->ToHost());
  EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
  if (!bytes.ok()) return {};
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}
std::unique_ptr<DeviceBuffer> Put(const std::vector<float>& values, int device = 0, bool exclusive = false) {
  auto buffer = Runtime()->FromHost(
      {FloatBytes(values), DType::kF32, {static_cast<int64_t>(values.size())}, std::nullopt, exclusive}, device, "");
  EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
  return *std::move(buffer);
}
CompileRequest Request(const std::string& program, std::vector<int> devices = {0}) {
  CompileRequest request;
  request.program = program;
  request.num_partitions = static_cast<int>(devices.size());
  request.devices = std::move(devices);
  return request;
}

constexpr char kAddOne[] = R"(module @add_one {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<4xf32>
    %0 = stablehlo.add %arg0, %one : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";
constexpr char kAddOneInPlace[] = R"(module @add_one_in_place {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>
    %1 = stablehlo.multiply %arg1, %arg1 : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
})";
constexpr char kSharded[] = R"(module @sharded attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"})
      -> (tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}, tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<8xf32>, tensor<f32>
  }
})";
constexpr char kCallback[] = R"(module @callback {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<2xi32>, tensor<4xf32>) {
    %0:2 = stablehlo.custom_call @pathways_host_callback_call(%arg0) {api_version = 4 : i32, has_side_effect = true,
        backend_config = {callback = 77 : i64}} : (tensor<4xf32>) -> (tensor<2xi32>, tensor<4xf32>)
    return %0#0, %0#1 : tensor<2xi32>, tensor<4xf32>
  }
})";

TEST_F(PjrtTest, DescribesItself) {
  EXPECT_EQ(Runtime()->info().platform_name, "cpu");
  EXPECT_FALSE(Runtime()->info().stablehlo_version.empty());
  ASSERT_EQ(Runtime()->devices().size(), 4u);
  for (const DeviceInfo& device : Runtime()->devices()) {
    EXPECT_FALSE(device.memories.empty());
    EXPECT_FALSE(device.to_string.empty());
  }
}

TEST_F(PjrtTest, RoundTripsEveryElementType) {
  for (int number : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 32, 33}) {
    const DType dtype = static_cast<DType>(number);
    const int64_t n = 6;
    std::string bytes(static_cast<size_t>(n * buffers::HostBytes(dtype)), '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 2);  // valid in every type
    auto buffer = Runtime()->FromHost({Bytes::Copy(bytes), dtype, {2, 3}, std::nullopt, false}, 1, "");
    if (!buffer.ok() && buffer.status().code() == absl::StatusCode::kUnimplemented) continue;
    ASSERT_TRUE(buffer.ok()) << buffers::Name(dtype) << ": " << buffer.status().ToString();
    absl::StatusOr<Bytes> back = Wait((*buffer)->ToHost());
    ASSERT_TRUE(back.ok()) << buffers::Name(dtype) << ": " << back.status().ToString();
    EXPECT_EQ(std::string(back->view()), bytes) << buffers::Name(dtype);
  }
}

TEST_F(PjrtTest, TakesStridesAndEmptyArrays) {
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 0.f);
  auto fortran = Runtime()->FromHost({FloatBytes(values), DType::kF32, {2, 3}, Dims{4, 8}, false}, 0, "");
  ASSERT_TRUE(fortran.ok());
  EXPECT_THAT(Values(fortran->get()), ElementsAre(0, 2, 4, 1, 3, 5));
  auto backwards = Runtime()->FromHost({FloatBytes(values), DType::kF32, {6}, Dims{-4}, false}, 0, "");
  ASSERT_TRUE(backwards.ok()) << backwards.status().ToString();
  EXPECT_THAT(Values(backwards->get()), ElementsAre(5, 4, 3, 2, 1, 0));
  auto empty = Runtime()->FromHost({Bytes(), DType::kF32, {0, 3}, std::nullopt, false}, 0, "");
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(Wait((*empty)->Ready()).ok());
  EXPECT_THAT(Values(empty->get()), ElementsAre());
}

TEST_F(PjrtTest, KeepsHostMemoryAliveForAsLongAsTheBuffer) {
  std::unique_ptr<DeviceBuffer> buffer;
  std::weak_ptr<const void> memory;
  {
    Bytes bytes = FloatBytes(std::vector<float>(1 << 16, 3.f));
    memory = bytes.owner();
    auto made = Runtime()->FromHost({std::move(bytes), DType::kF32, {1 << 16}, std::nullopt, false}, 0, "");
    ASSERT_TRUE(made.ok());
    buffer = *std::move(made);
  }
  EXPECT_FALSE(memory.expired()) << "the array was copied: the bytes should have been adopted";
  EXPECT_EQ(Values(buffer.get()), std::vector<float>(1 << 16, 3.f));
  buffer.reset();
  // The runtime may not yet have released the copy that was just read.
  for (int64_t spins = 0; !memory.expired() && spins < 100'000'000; ++spins) std::this_thread::yield();
  EXPECT_TRUE(memory.expired());
}

TEST_F(PjrtTest, CompilesAndRuns) {
  auto program = Runtime()->Compile(Request(kAddOne, {2}));
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ProgramInfo& info = (*program)->info();
  EXPECT_EQ(info.devices, std::vector<int>{2});
  ASSERT_EQ(info.outputs.size(), 1u);
  EXPECT_EQ(info.outputs[0].dtype, DType::kF32);
  EXPECT_THAT(info.outputs[0].dims, ElementsAre(4));
  EXPECT_EQ(info.parameters.size(), 1u);
  EXPECT_TRUE(info.donated_inputs.empty());
  xla::LayoutProto layout;
  ASSERT_TRUE(layout.ParseFromString(info.outputs[0].layout));
  EXPECT_THAT(layout.minor_to_major(), ElementsAre(0));
  xla::CompiledMemoryStatsProto stats;
  ASSERT_TRUE(stats.ParseFromString(info.memory_stats));
  EXPECT_EQ(stats.argument_size_in_bytes(), 16);

  auto x = Put({1, 2, 3, 4}, 2);
  DeviceBuffer* argument = x.get();
  auto launch = (*program)->Execute({&argument, 1}, {});
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  EXPECT_TRUE(Wait(launch->done).ok());
  EXPECT_THAT(Values(launch->outputs[0].get()), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(launch->outputs[0]->device(), 2);
  EXPECT_FALSE((*program)->Execute({}, {}).ok()) << "an argument is missing";
  auto costs = (*program)->CostAnalysis();
  ASSERT_TRUE(costs.ok());
  EXPECT_EQ(costs->at("flops"), 4);
  auto text = (*program)->Text();
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_THAT(*text, HasSubstr("HloModule add_one"));
}

TEST_F(PjrtTest, ReportsWhatIsReallyDonated) {
  auto program = Runtime()->Compile(Request(kAddOneInPlace));
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  EXPECT_THAT((*program)->info().donated_inputs, ElementsAre(0));
  auto x = Put({1, 2, 3, 4}), y = Put({10, 10, 10, 10});
  std::vector<DeviceBuffer*> arguments = {x.get(), y.get()};
  LaunchOptions keep;
  keep.non_donatable = {0};
  auto first = (*program)->Execute(arguments, keep);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_THAT(Values(x.get()), ElementsAre(1, 2, 3, 4));
  auto second = (*program)->Execute(arguments, {});
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(Values(second->outputs[0].get()), ElementsAre(11, 12, 13, 14));
  EXPECT_THAT(Values(second->outputs[1].get()), ElementsAre(100, 100, 100, 100));
  auto third = (*program)->Execute(arguments, {});
  EXPECT_FALSE(third.ok() && Wait(third->done).ok()) << "x is gone";
  auto fourth = (*program)->Execute({{third->outputs[0].get(), y.get()}}, {});
  EXPECT_FALSE(Wait(fourth->done).ok()) << "errors travel with buffers";
  EXPECT_FALSE(Wait(fourth->outputs[0]->Ready()).ok());
  EXPECT_FALSE(Wait(fourth->outputs[0]->ToHost()).ok());
}

TEST_F(PjrtTest, RunsOneProgramOverSeveralDevices) {
  xla::CompileOptionsProto options;
  options.mutable_executable_build_options()->set_device_ordinal(-1);
  options.mutable_executable_build_options()->set_use_spmd_partitioning(true);
  CompileRequest request = Request(kSharded, {3, 1, 0, 2});
  request.options = options.SerializeAsString();
  auto program = Runtime()->Compile(request);
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const ProgramInfo& info = (*program)->info();
  EXPECT_THAT(info.devices, ElementsAre(3, 1, 0, 2));
  EXPECT_THAT(info.parameters[0].dims, ElementsAre(2));
  EXPECT_THAT(info.outputs[0].dims, ElementsAre(2));
  xla::OpSharding sharding;
  ASSERT_TRUE(sharding.ParseFromString(info.parameters[0].op_sharding));
  EXPECT_EQ(sharding.type(), xla::OpSharding::OTHER);
  ASSERT_TRUE(sharding.ParseFromString(info.outputs[0].op_sharding));
  EXPECT_THAT(sharding.tile_assignment_dimensions(), ElementsAre(4));
  ASSERT_TRUE(sharding.ParseFromString(info.outputs[1].op_sharding));
  EXPECT_EQ(sharding.type(), xla::OpSharding::REPLICATED);

  std::vector<std::unique_ptr<DeviceBuffer>> shards;
  std::vector<DeviceBuffer*> arguments;
  for (int p = 0; p < 4; ++p) {
    shards.push_back(Put({static_cast<float>(2 * p), static_cast<float>(2 * p + 1)}, request.devices[p]));
    arguments.push_back(shards.back().get());
  }
  auto launch = (*program)->Execute(arguments, {.launch_id = 5});
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  EXPECT_TRUE(Wait(launch->done).ok());
  EXPECT_THAT(Values(launch->outputs[2 * 3].get()), ElementsAre(12, 14));
  for (int p = 0; p < 4; ++p) EXPECT_THAT(Values(launch->outputs[2 * p + 1].get()), ElementsAre(56));
}

TEST_F(PjrtTest, CopiesBetweenDevicesAndMemories) {
  auto x = Put({1, 2, 3, 4}, 0);
  for (const MemoryInfo& memory : Runtime()->devices()[3].memories) {
    auto copy = x->CopyTo(3, memory.kind);
    ASSERT_TRUE(copy.ok()) << memory.kind << ": " << copy.status().ToString();
    EXPECT_EQ((*copy)->memory_kind(), memory.kind);
    EXPECT_THAT(Values(copy->get()), ElementsAre(1, 2, 3, 4));
  }
  EXPECT_EQ(x->CopyTo(3, "attic").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(x->CopyTo(9, "").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PjrtTest, SerializesPrograms) {
  const CompileRequest request = Request(kAddOneInPlace, {1});
  auto program = Runtime()->Compile(request);
  ASSERT_TRUE(program.ok());
  auto bytes = (*program)->Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  auto loaded = Runtime()->Load(*bytes, request);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_THAT((*loaded)->info().donated_inputs, ElementsAre(0));
  EXPECT_THAT((*loaded)->info().devices, ElementsAre(1));
  auto x = Put({1, 2, 3, 4}, 1), y = Put({1, 1, 1, 1}, 1);
  std::vector<DeviceBuffer*> arguments = {x.get(), y.get()};
  auto launch = (*loaded)->Execute(arguments, {});
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  EXPECT_THAT(Values(launch->outputs[0].get()), ElementsAre(2, 3, 4, 5));
  EXPECT_FALSE(Runtime()->Load("garbage", request).ok());
}

TEST_F(PjrtTest, CallsBackToTheHost) {
  CompileRequest request = Request(kCallback, {1});
  request.host_callbacks = true;
  auto program = Runtime()->Compile(request);
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  std::promise<std::pair<HostCallRequest, std::function<void(HostCallReply)>>> called;
  Runtime()->SetHostCallHandler(
      [&](HostCallRequest r, std::function<void(HostCallReply)> done) { called.set_value({std::move(r), std::move(done)}); });
  auto x = Put({1, 2, 3, 4}, 1);
  DeviceBuffer* argument = x.get();
  auto launch = (*program)->Execute({&argument, 1}, {.session = SessionId(9)});
  ASSERT_TRUE(launch.ok()) << launch.status().ToString();
  auto [call, done] = called.get_future().get();
  EXPECT_EQ(call.session, SessionId(9));
  EXPECT_EQ(call.callback, 77u);
  EXPECT_EQ(call.device, 1);
  ASSERT_EQ(call.operands.size(), 1u);
  EXPECT_THAT(call.operands[0].dims, ElementsAre(4));
  EXPECT_THAT(call.result_bytes, ElementsAre(8, 16));
  EXPECT_FALSE(launch->done.ready()) << "it must wait for the reply";
  const int32_t ints[] = {5, 6};
  done(std::vector<Bytes>{Bytes::Copy({reinterpret_cast<const char*>(ints), 8}), call.operands[0].data});
  EXPECT_THAT(Values<int32_t>(launch->outputs[0].get()), ElementsAre(5, 6));
  EXPECT_THAT(Values(launch->outputs[1].get()), ElementsAre(1, 2, 3, 4));

  for (const HostCallReply& reply :
       {HostCallReply(absl::InternalError("ValueError: no such fish")), HostCallReply(std::vector<Bytes>{})}) {
    Runtime()->SetHostCallHandler([&](HostCallRequest, std::function<void(HostCallReply)> answer) { answer(reply); });
    auto failing = (*program)->Execute({&argument, 1}, {});
    absl::Status status = failing.ok() ? Wait(failing->done).status() : failing.status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(reply.ok() ? "returned 0 results instead of 2" : "no such fish"));
  }
  Runtime()->SetHostCallHandler(nullptr);
  auto nobody = (*program)->Execute({&argument, 1}, {});
  EXPECT_EQ((nobody.ok() ? Wait(nobody->done).status() : nobody.status()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(PjrtTest, RecordsAProfileOfWhatThePluginDid) {
  auto program = Runtime()->Compile(Request(kAddOne));
  ASSERT_TRUE(program.ok()) << program.status().ToString();
  const auto run = [&] {
    auto x = Put({1, 2, 3, 4});
    DeviceBuffer* argument = x.get();
    auto launch = (*program)->Execute({&argument, 1}, {});
    ASSERT_TRUE(launch.ok() && Wait(launch->done).ok());
  };
  auto profile = Runtime()->StartProfile();
  ASSERT_TRUE(profile.ok()) << profile.status().ToString();
  EXPECT_FALSE(Runtime()->StartProfile().ok()) << "a process has one at a time";
  run();
  const absl::StatusOr<std::string> bytes = (*profile)->Stop(64 << 20);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(*bytes));
  size_t events = 0;
  for (const auto& plane : space.planes()) {
    for (const auto& line : plane.lines()) events += line.events_size();
  }
  EXPECT_GT(events, 0u);

  auto second = Runtime()->StartProfile();
  ASSERT_TRUE(second.ok()) << "the first has ended: " << second.status().ToString();
  run();
  EXPECT_TRUE(absl::IsResourceExhausted((*second)->Stop(10).status()));
}

TEST_F(PjrtTest, RefusesBadProgramsAndOptions) {
  EXPECT_FALSE(Runtime()->Compile(Request("not a program")).ok());
  EXPECT_EQ(Runtime()->Compile(Request(kAddOne, {7})).status().code(), absl::StatusCode::kInvalidArgument);
  CompileRequest bad = Request(kAddOne);
  bad.options = "\xff\xff\xff";
  EXPECT_EQ(Runtime()->Compile(bad).status().code(), absl::StatusCode::kInvalidArgument);
  bad = Request(kAddOne);
  bad.num_replicas = 3;
  EXPECT_EQ(Runtime()->Compile(bad).status().code(), absl::StatusCode::kInvalidArgument);
}

// DV-5. The caller, the worker's strand, is not blocked; the launches still run in order.
TEST_F(PjrtTest, APluginThatBlocksDoesNotBlockTheCaller) {
  auto runtime = pjrt::MakeRuntime({PW_GATED_PLUGIN, {{"cpu_device_count", int64_t{2}}}});
  ASSERT_TRUE(runtime.ok()) << runtime.status().ToString();
  auto gate = reinterpret_cast<void (*)(bool)>(dlsym(dlopen(PW_GATED_PLUGIN, RTLD_NOW), "PwGate"));
  ASSERT_NE(gate, nullptr) << dlerror();
  auto add = (*runtime)->Compile(Request(kAddOne, {1}));
  auto in_place = (*runtime)->Compile(Request(kAddOneInPlace, {1}));
  ASSERT_TRUE(add.ok() && in_place.ok());
  auto x = (*runtime)->FromHost({FloatBytes({1, 2, 3, 4}), DType::kF32, {4}, std::nullopt, false}, 1, "");
  ASSERT_TRUE(x.ok());

  gate(false);
  DeviceBuffer* argument = x->get();
  auto first = (*add)->Execute({&argument, 1}, {});
  ASSERT_TRUE(first.ok());
  const Future<Bytes> before = first->outputs[0]->ToHost();
  auto copy = first->outputs[0]->CopyTo(0, "");
  ASSERT_TRUE(copy.ok());
  std::vector<DeviceBuffer*> arguments = {first->outputs[0].get(), x->get()};
  auto second = (*in_place)->Execute(arguments, {});  // takes over the array read and copied above
  ASSERT_TRUE(second.ok());
  first->outputs.clear();
  EXPECT_THAT(Values(x->get()), ElementsAre(1, 2, 3, 4)) << "what is there can be read meanwhile";
  EXPECT_FALSE(first->done.ready());
  EXPECT_FALSE(before.ready());

  gate(true);
  EXPECT_THAT(Values(second->outputs[0].get()), ElementsAre(3, 5, 7, 9));
  EXPECT_TRUE(Wait(first->done).ok());
  absl::StatusOr<Bytes> bytes = Wait(before);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(std::string(bytes->view()), std::string(FloatBytes({2, 3, 4, 5}).view()));
  EXPECT_THAT(Values(copy->get()), ElementsAre(2, 3, 4, 5));
}

TEST(PluginLoader, ExplainsWhatIsWrong) {
  auto load = [](const std::string& path) { return pjrt::MakeRuntime({path, {}}).status(); };
  EXPECT_EQ(load("/nowhere/plugin.so").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(load("/nowhere/plugin.so").message()), HasSubstr("/nowhere/plugin.so"));
  EXPECT_EQ(load("/proc/self/cmdline").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(load(PW_BAD_PLUGIN_0).message()), HasSubstr("GetPjrtApi"));
  EXPECT_THAT(std::string(load(PW_BAD_PLUGIN_1).message()), HasSubstr("speaks PJRT 1.3"));
  EXPECT_THAT(std::string(load(PW_BAD_PLUGIN_2).message()), HasSubstr("lacks entries"));
  EXPECT_THAT(std::string(load(PW_BAD_PLUGIN_3).message()), HasSubstr("returned nothing"));
}

}  // namespace
}  // namespace pw::device
