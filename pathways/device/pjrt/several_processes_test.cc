// Tests programs over several processes with the CPU plugin, in both ways in which processes find each other (processes.h). The processes are
// runtimes of this process.
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/await.h"
#include "pathways/device/pjrt/runtime.h"
#include "pathways/device/world.h"
#include "xla/compile_options.pb.h"

namespace pw::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kNodes = 2;
constexpr int kDevicesOfNode = 2;
constexpr int kOverProcesses = 1 << 30;  // the bit of launch ids that are the same in all processes

constexpr char kSumOverAll[] = R"(module @sum attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {mhlo.sharding = "{devices=[4]<=[4]}"})
      -> (tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
})";

// The store of a world, in this process.
class StoreHere : public KeyValues {
 public:
  absl::Status Put(absl::string_view key, absl::string_view value) override {
    std::lock_guard<std::mutex> lock(mu_);
    if (!values_.emplace(std::string(key), std::string(value)).second) return absl::AlreadyExistsError(key);
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override {
    std::unique_lock<std::mutex> lock(mu_);
    const std::string wanted(key);
    changed_.wait_for(lock, absl::ToChronoMilliseconds(timeout), [&] { return values_.contains(wanted) || !ended_.ok(); });
    if (values_.contains(wanted)) return values_[wanted];
    return ended_.ok() ? absl::DeadlineExceededError(key)
                       : absl::Status(ended_.code(), absl::StrCat(key, ": ", ended_.message()));
  }
  absl::StatusOr<std::string> TryGet(absl::string_view key) override { return Get(key, absl::ZeroDuration()); }
  void End(const absl::Status& why) {
    std::lock_guard<std::mutex> lock(mu_);
    ended_ = why;
    changed_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  absl::Status ended_;
};

enum class Kind { kNamed, kWorld };

pjrt::RuntimeOptions OptionsOf(Kind kind, int node, std::shared_ptr<KeyValues> store) {
  pjrt::RuntimeOptions options{PW_TEST_PLUGIN, {{"cpu_device_count", int64_t{kDevicesOfNode}}, {"island", std::string("i")}}};
  options.launch_at_once = false;
  if (kind == Kind::kNamed) {
    options.other_processes = kNodes - 1;
  } else {
    options.options.push_back({"world", std::string("key_value")});
    options.world = World{"w1", node, kNodes, std::move(store)};
  }
  return options;
}

class SeveralProcessesTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (std::string(PW_TEST_PLUGIN).empty()) GTEST_SKIP() << "built without the CPU plugin";
    std::vector<std::future<absl::StatusOr<std::unique_ptr<DeviceRuntime>>>> starting;
    for (int node = 0; node < kNodes; ++node) {
      starting.push_back(
          std::async(std::launch::async, [this, node] { return pjrt::MakeRuntime(OptionsOf(GetParam(), node, store_)); }));
    }
    for (auto& one : starting) {
      absl::StatusOr<std::unique_ptr<DeviceRuntime>> runtime = one.get();
      ASSERT_TRUE(runtime.ok()) << runtime.status();
      runtimes_.push_back(*std::move(runtime));
    }
  }

  const std::string& AddressOf(int node) const { return runtimes_[node]->info().process_address; }
  // All devices, node by node, as one process is told of them.
  CompileRequest RequestAt(int here) const {
    CompileRequest request;
    request.program = kSumOverAll;
    request.num_partitions = kNodes * kDevicesOfNode;
    xla::CompileOptionsProto options;
    options.mutable_executable_build_options()->set_device_ordinal(-1);
    options.mutable_executable_build_options()->set_use_spmd_partitioning(true);
    request.options = options.SerializeAsString();
    for (int node = 0; node < kNodes; ++node) {
      for (int device = 0; device < kDevicesOfNode; ++device) {
        request.positions.push_back({node == here ? "" : AddressOf(node), device});
        if (node == here) request.devices.push_back(device);
      }
    }
    return request;
  }
  std::vector<std::shared_ptr<LoadedProgram>> CompileEverywhere() {
    std::vector<std::shared_ptr<LoadedProgram>> programs;
    for (int node = 0; node < kNodes; ++node) {
      auto program = runtimes_[node]->Compile(RequestAt(node));
      EXPECT_TRUE(program.ok()) << program.status();
      programs.push_back(program.value_or(nullptr));
    }
    return programs;
  }
  // Launches a process's part. Device d of node n brings 10 n + d.
  Launch LaunchAt(int node, LoadedProgram& program, int launch) {
    std::vector<std::unique_ptr<DeviceBuffer>> shards;
    std::vector<DeviceBuffer*> arguments;
    for (int device = 0; device < kDevicesOfNode; ++device) {
      const float value = static_cast<float>(10 * node + device);
      const Bytes bytes = Bytes::Copy({reinterpret_cast<const char*>(&value), sizeof(value)});
      shards.push_back(*runtimes_[node]->FromHost({bytes, DType::kF32, {1}, std::nullopt, false}, device, ""));
      arguments.push_back(shards.back().get());
    }
    auto launched = program.Execute(arguments, {.launch_id = kOverProcesses | launch});
    EXPECT_TRUE(launched.ok()) << launched.status();
    return *std::move(launched);
  }

  const std::shared_ptr<StoreHere> store_ = std::make_shared<StoreHere>();
  std::vector<std::unique_ptr<DeviceRuntime>> runtimes_;
};

TEST_P(SeveralProcessesTest, ASumOverAllDevicesIsTheSameEverywhere) {
  EXPECT_NE(AddressOf(0), AddressOf(1));
  const auto programs = CompileEverywhere();
  for (int launch = 1; launch <= 3; ++launch) {
    std::vector<Launch> launches;
    for (int node = 0; node < kNodes; ++node) launches.push_back(LaunchAt(node, *programs[node], launch));
    for (Launch& one : launches) {
      ASSERT_TRUE(Await(one.done).ok()) << Await(one.done).status();
      ASSERT_EQ(one.outputs.size(), 2u);
      for (const auto& output : one.outputs) {
        const absl::StatusOr<Bytes> bytes = Await(output->ToHost());
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        float sum = 0;
        std::memcpy(&sum, bytes->data(), sizeof(sum));
        EXPECT_EQ(sum, 0 + 1 + 10 + 11);
      }
    }
  }
}

TEST_P(SeveralProcessesTest, ALaunchThatWaitsForALostProcessNamesIt) {
  const auto programs = CompileEverywhere();
  const std::string lost = AddressOf(1);
  Launch launch = LaunchAt(0, *programs[0], 7);
  runtimes_[0]->LoseProcess(lost, absl::UnavailableError("host 1 is lost"));
  const absl::Status outcome = Await(launch.done).status();
  EXPECT_EQ(outcome.code(), absl::StatusCode::kUnavailable) << outcome;
  EXPECT_TRUE(BlamesProcess(outcome, lost)) << outcome << " does not name " << lost;
  EXPECT_FALSE(BlamesProcess(outcome, AddressOf(0)));
}

TEST_P(SeveralProcessesTest, AWorldKnowsTheDevicesOfAllItsProcesses) {
  CompileRequest request = RequestAt(0);
  request.positions.back().device = 5;
  const absl::Status refused = runtimes_[0]->Compile(request).status();
  if (GetParam() == Kind::kNamed) {
    EXPECT_TRUE(refused.ok()) << refused << ": another process may have more devices than this one";
    return;
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("knows 2 devices of process 1, and so no device 5"));
}

TEST_P(SeveralProcessesTest, AProgramForAHostThatIsLostCompiles) {
  CompileRequest request = RequestAt(0);
  for (Position& position : request.positions) {
    if (!position.process.empty()) position.process = "lost-host-3";
  }
  const auto program = runtimes_[0]->Compile(request);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT((*program)->info().devices, ElementsAre(0, 1));
}

INSTANTIATE_TEST_SUITE_P(Kinds, SeveralProcessesTest, ::testing::Values(Kind::kNamed, Kind::kWorld),
                         [](const auto& info) { return info.param == Kind::kNamed ? "named" : "world"; });

TEST(WorldRuntimeTest, ThereAreNoDevicesWithoutTheOtherProcesses) {
  if (std::string(PW_TEST_PLUGIN).empty()) GTEST_SKIP() << "built without the CPU plugin";
  const auto store = std::make_shared<StoreHere>();
  store->End(absl::UnavailableError("host 'b' is lost"));
  const absl::Status status = pjrt::MakeRuntime(OptionsOf(Kind::kWorld, 0, store)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot start its devices: pathways-cpu/world/1: host 'b' is lost"));
}

}  // namespace
}  // namespace pw::device
