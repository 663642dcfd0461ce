#include "pathways/device/simulated/zero_runtime.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/testing/manual_world.h"
#include "pathways/device/simulated/runtime.h"
#include "pathways/device/simulated/testing.h"

namespace pw::device {
namespace {

const absl::Time kStart = ManualClock().now;

// Keeps tasks until told to fire the first.
class HandTimers final : public Timers {
 public:
  void After(absl::Duration delay, Executor* executor, Task task) override {
    waiting.push_back({delay, executor, std::move(task)});
  }
  void Fire() {
    Entry first = std::move(waiting.front());
    waiting.pop_front();
    first.executor->Post(std::move(first.task));
  }
  struct Entry {
    absl::Duration delay;
    Executor* executor;
    Task task;
  };
  std::deque<Entry> waiting;
};

// Two hosts of two devices. The compiler is the simulated runtime of text programs, whose cost is dims * args * outputs operations.
class ZeroRuntimeTest : public ::testing::Test {
 protected:
  explicit ZeroRuntimeTest(DeviceSpeed speed = {})
      : compiler(
            [](int devices) -> absl::StatusOr<std::unique_ptr<DeviceRuntime>> {
              return std::make_unique<SimulatedRuntime>(SimulatedOptions{.devices = devices});
            },
            speed) {
    for (const char* name : {"a", "b"}) {
      hosts.push_back(*MakeZeroRuntime({.process = name,
                                        .devices = 2,
                                        .island_of = [this](const std::string& process) { return islands[process]; },
                                        .executor = &steps,
                                        .clock = &clock,
                                        .timers = &timers,
                                        .compiler = &compiler,
                                        .meetings = &meetings,
                                        .zeros = &zeros}));
    }
  }

  std::shared_ptr<LoadedProgram> Compile(int host, const std::string& text, int partitions, bool both = false) {
    CompileRequest request;
    request.format = "sim";
    request.program = text;
    request.num_partitions = partitions;
    const int here = both ? partitions / 2 : partitions;
    for (int d = 0; d < here; ++d) request.devices.push_back(d);
    if (both) {
      for (int d = 0; d < partitions; ++d)
        request.positions.push_back({d / here == host ? "" : host == 0 ? "simulated:b" : "simulated:a", d % here});
    }
    auto program = hosts[host]->Compile(request);
    EXPECT_TRUE(program.ok()) << program.status();
    return *program;
  }

  static Launch Run(LoadedProgram& program, const std::vector<DeviceBuffer*>& args = {}, int id = 0) {
    auto launch = program.Execute(args, {.launch_id = id, .non_donatable = {}, .session = {}});
    EXPECT_TRUE(launch.ok()) << launch.status();
    return *std::move(launch);
  }

  ManualExecutor steps;
  ManualClock clock;
  HandTimers timers;
  Compiler compiler;
  Meetings meetings;
  Zeros zeros;
  std::map<std::string, int> islands;
  std::vector<std::unique_ptr<DeviceRuntime>> hosts;
};

class TimedZeroRuntimeTest : public ZeroRuntimeTest {
 protected:
  TimedZeroRuntimeTest()
      : ZeroRuntimeTest({.flops_per_second = 1000,
                         .bytes_per_second = 0,
                         .ring = {1e6, absl::Milliseconds(1)},
                         .between = {1e5, absl::Milliseconds(10)}}) {}

  // Duration of one execution over both hosts.
  absl::Duration TimeOverBoth(const std::string& text) {
    auto a = Compile(0, text, 4, true), b = Compile(1, text, 4, true);
    Launch at_a = Run(*a, {}, ++launches), at_b = Run(*b, {}, launches);
    steps.RunUntilIdle();
    const absl::Duration takes = timers.waiting.empty() ? absl::ZeroDuration() : timers.waiting[0].delay;
    clock.now += takes;
    while (!timers.waiting.empty()) timers.Fire();
    steps.RunUntilIdle();
    EXPECT_TRUE(at_a.done.ready() && at_b.done.ready());
    return takes;
  }

  int launches = 100;
};

TEST_F(ZeroRuntimeTest, ResultsAreZerosOfTheCompiledShape) {
  auto program = Compile(0, "args=0 outputs=2 dims=3x5", 2);
  Launch launch = Run(*program);
  ASSERT_EQ(launch.outputs.size(), 4u);  // two results on two devices
  EXPECT_FALSE(launch.outputs[0]->Ready().ready());
  steps.RunUntilIdle();
  for (const auto& output : launch.outputs) {
    EXPECT_EQ(output->dims(), (Dims{3, 5}));
    Future<Bytes> bytes = output->ToHost();
    ASSERT_TRUE(bytes.ready() && bytes.value().ok());
    EXPECT_EQ(std::string(bytes.value()->view()), std::string(3 * 5 * sizeof(float), '\0'));
  }
  EXPECT_EQ(launch.outputs[1]->device(), 0);
  EXPECT_EQ(launch.outputs[2]->device(), 1);
}

TEST_F(ZeroRuntimeTest, HugeResultsTakeNoMemory) {
  auto program = Compile(0, "args=0 outputs=1 dims=1048576x65536", 1);  // 256 GiB
  Launch launch = Run(*program);
  steps.RunUntilIdle();
  absl::StatusOr<Bytes> view = launch.outputs[0]->HostView();
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->size(), size_t{1} << 38);
  EXPECT_EQ(view->data()[view->size() - 1], 0);
}

TEST_F(ZeroRuntimeTest, WhatIsUploadedKeepsItsContents) {
  HostArray array{Bytes::Copy("abcdefgh"), DType::kF32, {2}, std::nullopt, false};
  auto buffer = hosts[0]->FromHost(array, 1, "");
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  auto copy = (*buffer)->CopyTo(0, "");
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ((*copy)->ToHost().value()->view(), "abcdefgh");
  EXPECT_FALSE(hosts[0]->FromHost(array, 2, "").ok());
}

TEST_F(ZeroRuntimeTest, ManyUploadedZerosTakeNoMemory) {
  auto memory = std::make_shared<std::vector<uint8_t>>(1 << 20);
  auto upload = [&] {
    HostArray array{Bytes(memory, memory->data(), memory->size()), DType::kU8, {1 << 20}, std::nullopt, false};
    return *hosts[0]->FromHost(std::move(array), 1, "");
  };
  const auto zeros = upload();
  EXPECT_EQ(memory.use_count(), 1) << "nobody keeps them";
  EXPECT_EQ(zeros->HostView()->view(), std::string(1 << 20, '\0'));
  memory->back() = 1;
  const auto others = upload();
  EXPECT_EQ(memory.use_count(), 2);
  EXPECT_EQ(others->HostView()->view().back(), 1);
}

TEST_F(ZeroRuntimeTest, AllHostsShareOneCompilation) {
  auto first = Compile(0, kAdd, 4, true);
  auto second = Compile(1, kAdd, 4, true);
  EXPECT_EQ(compiler.compilations(), 1);
  EXPECT_EQ(&first->info(), &second->info());  // the same local devices
  EXPECT_EQ(first->info().devices, (std::vector<int>{0, 1}));
  first = second = nullptr;
  Compile(0, kAdd, 4, true);
  EXPECT_EQ(compiler.compilations(), 2);
}

TEST_F(ZeroRuntimeTest, HostsOfALaunchBeginTogether) {
  auto a = Compile(0, "args=0 outputs=1 dims=4", 4, true);
  auto b = Compile(1, "args=0 outputs=1 dims=4", 4, true);
  Launch at_a = Run(*a, {}, 7);
  steps.RunUntilIdle();
  EXPECT_FALSE(at_a.done.ready());
  Launch at_b = Run(*b, {}, 7);
  steps.RunUntilIdle();
  EXPECT_TRUE(at_a.done.ready() && at_a.done.value().ok());
  EXPECT_TRUE(at_b.done.ready() && at_b.done.value().ok());
}

TEST_F(ZeroRuntimeTest, AnAbortedLaunchFailsWhereItIsAndWhereItComes) {
  auto a = Compile(0, "args=0 outputs=1 dims=4", 4, true);
  auto b = Compile(1, "args=0 outputs=1 dims=4", 4, true);
  Launch at_a = Run(*a, {}, 9);
  hosts[1]->AbortLaunch(9, absl::UnavailableError("host b will not come"));
  steps.RunUntilIdle();
  ASSERT_TRUE(at_a.outputs[0]->Ready().ready());
  EXPECT_EQ(at_a.outputs[0]->Ready().value().status().message(), "host b will not come");
  Launch at_b = Run(*b, {}, 9);
  steps.RunUntilIdle();
  EXPECT_FALSE(at_b.done.value().ok());
  Launch again = Run(*a, {}, 10);  // the devices are free
  Run(*b, {}, 10);
  steps.RunUntilIdle();
  EXPECT_TRUE(again.done.value().ok());
}

TEST_F(ZeroRuntimeTest, ErrorsOfArgumentsReachResultsAndNothingElse) {
  auto spans = Compile(0, "args=0 outputs=1 dims=4", 4, true);
  Launch lost = Run(*spans, {}, 1);
  hosts[0]->AbortLaunch(1, absl::InternalError("lost"));
  auto program = Compile(0, kAdd, 1);
  Launch poisoned = Run(*program, {lost.outputs[0].get()});
  auto other = Compile(0, "args=0 outputs=1 dims=4", 1);
  Launch fine = Run(*other);
  steps.RunUntilIdle();
  EXPECT_EQ(poisoned.outputs[0]->Ready().value().status().message(), "lost");
  EXPECT_TRUE(fine.done.value().ok());
}

TEST_F(ZeroRuntimeTest, DonatedBuffersCannotBeUsedAgain) {
  auto make = Compile(0, "args=0 outputs=1 dims=4", 1);
  auto take = Compile(0, kDonate, 1);
  Launch launch = Run(*make);
  Run(*take, {launch.outputs[0].get()});
  steps.RunUntilIdle();
  EXPECT_FALSE(take->Execute(std::vector<DeviceBuffer*>{launch.outputs[0].get()}, {}).ok());
  EXPECT_FALSE(launch.outputs[0]->ToHost().value().ok());
}

TEST_F(TimedZeroRuntimeTest, DevicesAreBusyForAsLongAsTheirSpeedSaysOneAfterAnother) {
  auto make = Compile(0, "args=1 outputs=1 dims=50", 2);  // 50 operations on each device: 50 ms
  HostArray array{Bytes::Copy(std::string(200, 'x')), DType::kF32, {50}, std::nullopt, false};
  auto one = *hosts[0]->FromHost(array, 0, "");
  auto two = *hosts[0]->FromHost(array, 1, "");
  Launch first = Run(*make, {one.get(), two.get()});
  Launch second = Run(*make, {one.get(), two.get()});
  steps.RunUntilIdle();
  ASSERT_EQ(timers.waiting.size(), 1u);
  EXPECT_EQ(timers.waiting[0].delay, absl::Milliseconds(50));
  clock.now += absl::Milliseconds(50);
  timers.Fire();
  steps.RunUntilIdle();
  EXPECT_TRUE(first.done.ready());
  EXPECT_FALSE(second.done.ready());
  ASSERT_EQ(timers.waiting.size(), 1u);
  EXPECT_EQ(timers.waiting[0].delay, absl::Milliseconds(50));
  timers.Fire();
  steps.RunUntilIdle();
  EXPECT_TRUE(second.done.ready());
}

TEST_F(TimedZeroRuntimeTest, CollectivesTakeWhatTheirRingDoes) {
  const std::string program = "args=0 outputs=1 dims=50 ring=3000:6";
  EXPECT_EQ(TimeOverBoth(program), absl::Milliseconds(3 + 6));
  islands["b"] = 1;  // the slow links set the pace
  EXPECT_EQ(TimeOverBoth(program + " us=0"), absl::Milliseconds(30 + 60));
  auto alone = Compile(0, program, 2);
  Run(*alone);
  steps.RunUntilIdle();
  ASSERT_EQ(timers.waiting.size(), 1u);
  EXPECT_EQ(timers.waiting[0].delay, absl::Milliseconds(3 + 6)) << "within a host";
}

TEST(BusyWithTest, ComputingAndThenSending) {
  const DeviceSpeed speed{100, 10, {1000, absl::Milliseconds(2)}, {500, absl::Milliseconds(5)}};
  const std::map<std::string, double> costs = {
      {"flops", 300}, {"bytes accessed", 10}, {"collective bytes", 2000}, {"collective steps", 4}};
  EXPECT_EQ(BusyWith(costs, speed).inside, absl::Milliseconds(3000 + 2000 + 8));
  EXPECT_EQ(BusyWith(costs, speed).between, absl::Milliseconds(3000 + 4000 + 20));
  EXPECT_EQ(BusyWith({{"flops", -1}, {"bytes accessed", 20}}, speed).inside, absl::Seconds(2)) << "unknown is nothing";
  EXPECT_EQ(BusyWith(costs, DeviceSpeed()).inside, absl::ZeroDuration());
}

TEST_F(TimedZeroRuntimeTest, WhatWasEnqueuedAheadFollowsWithoutAGapHoweverLateWeAre) {
  auto make = Compile(0, "args=0 outputs=1 dims=50", 1);  // counted as no operations without arguments
  auto work = Compile(0, "args=1 outputs=1 dims=50", 1);
  Launch zero = Run(*make);
  Launch first = Run(*work, {zero.outputs[0].get()});
  Launch second = Run(*work, {first.outputs[0].get()});
  steps.RunUntilIdle();
  clock.now += absl::Milliseconds(70);  // the timer is 20 ms late
  timers.Fire();
  steps.RunUntilIdle();
  ASSERT_EQ(timers.waiting.size(), 1u);
  EXPECT_EQ(timers.waiting[0].delay, absl::Milliseconds(30));
  clock.now += absl::Milliseconds(35);
  timers.Fire();
  steps.RunUntilIdle();
  ASSERT_TRUE(second.done.ready());
  EXPECT_EQ(first.busy->begin, kStart);
  EXPECT_EQ(first.busy->end, kStart + absl::Milliseconds(50)) << "whenever anybody noticed";
  EXPECT_EQ(second.busy->begin, kStart + absl::Milliseconds(50));
  Launch third = Run(*work, {second.outputs[0].get()});  // the device has been idle for 5 ms
  steps.RunUntilIdle();
  EXPECT_EQ(timers.waiting.back().delay, absl::Milliseconds(50));
}

TEST_F(TimedZeroRuntimeTest, HostsBeginAsOfTheLastOfThem) {
  auto a = Compile(0, "args=1 outputs=1 dims=50", 4, true);
  auto b = Compile(1, "args=1 outputs=1 dims=50", 4, true);
  HostArray array{Bytes::Copy(std::string(200, 'x')), DType::kF32, {50}, std::nullopt, false};
  std::vector<std::unique_ptr<DeviceBuffer>> given;
  auto args = [&](int host) {
    std::vector<DeviceBuffer*> buffers;
    for (int d = 0; d < 2; ++d) buffers.push_back(given.emplace_back(*hosts[host]->FromHost(array, d, "")).get());
    return buffers;
  };
  Launch at_a = Run(*a, args(0), 3);
  clock.now += absl::Milliseconds(20);
  Launch at_b = Run(*b, args(1), 3);
  steps.RunUntilIdle();
  ASSERT_EQ(timers.waiting.size(), 2u);
  while (!timers.waiting.empty()) timers.Fire();
  steps.RunUntilIdle();
  ASSERT_TRUE(at_a.done.ready() && at_b.done.ready());
  EXPECT_EQ(at_a.busy->begin, kStart + absl::Milliseconds(20));
  EXPECT_EQ(at_b.busy->begin, at_a.busy->begin);
}

}  // namespace
}  // namespace pw::device
