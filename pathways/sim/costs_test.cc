// The cost of calls in messages: frames and bytes between the controller and its hosts, and between hosts. Each call runs alone
// and so shares no frame with another. The real controller and workers run over a simulated network: the numbers are the same on
// every machine and in every run. They limit every change of how programs reach the hosts: a change that increases one must say
// why, a change that lowers one lowers it here.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/buffers/dtype.h"
#include "pathways/sim/cluster.h"
#include "pathways/sim/tenant.h"
#include "pathways/sim/testing.h"
#include "pathways/v1/program.pb.h"

namespace pw::sim {
namespace {

struct Cost {
  Network::Count to_hosts, from_hosts, between_hosts;
};

// One island with one device on each host.
class Costs {
 public:
  explicit Costs(int hosts) : world_(1), cluster_(Island(hosts), &world_) {
    EXPECT_TRUE(cluster_.Form());
    tenant_ = std::make_unique<Tenant>(&cluster_, cluster_.NewClient("client", absl::ZeroDuration()));
    tenant_->Open([this](std::vector<int32_t> devices) { devices_ = std::move(devices); });
    Settle();
    EXPECT_EQ(devices_.size(), static_cast<size_t>(hosts));
  }
  ~Costs() {
    EXPECT_TRUE(cluster_.referee().violations().empty());
    world_.Drop();
  }

  // Waits until all work has ended and all later messages to hosts have been sent. Far less than a heartbeat.
  void Settle() {
    world_.RunUntil(world_.now() + absl::Milliseconds(300), Never);
    EXPECT_EQ(cluster_.controller().fabric().ops().size(), 0u);
  }
  template <class Action>
  Cost Of(Action action) {
    const Network::Totals before = cluster_.network().totals();
    action();
    Settle();
    const Network::Totals& after = cluster_.network().totals();
    return {Less(after.to_hosts, before.to_hosts), Less(after.from_hosts, before.from_hosts),
            Less(after.between_hosts, before.between_hosts)};
  }
  // Measures the third call: by then the scheduler knows how long it takes. Not all results are read, so none is fetched with its call
  // (frontend/fetches_ahead.h).
  template <class Call>
  Cost OfCall(Call call) {
    Check(Started(call));
    tenant_->Drop({Started(call)});
    Settle();
    std::unique_ptr<Value> result;
    const Cost cost = Of([&] { result = std::make_unique<Value>(call()); });
    Check(*result);
    return cost;
  }
  // Measures a call and the reading of its result, after two that were read too.
  template <class Call>
  Cost OfCallAndRead(Call call) {
    for (int i = 0; i < 2; ++i) Check(Started(call));
    std::unique_ptr<Value> result;
    const Cost cost = Of([&] {
      result = std::make_unique<Value>(Started(call));
      tenant_->Read(*result, nullptr);
    });
    tenant_->Drop({*result});
    Settle();
    return cost;
  }

  Tenant& tenant() { return *tenant_; }
  const std::vector<int32_t>& devices() const { return devices_; }
  int64_t had_names() const { return cluster_.had_names(); }

 private:
  static Scenario Island(int hosts) {
    Scenario scenario = LargeScenario(hosts);
    scenario.hosts_per_island = hosts;
    scenario.heartbeat = absl::Seconds(1000);
    return scenario;
  }
  static Network::Count Less(const Network::Count& a, const Network::Count& b) {
    return {a.frames - b.frames, a.bytes - b.bytes};
  }
  template <class Call>
  Value Started(Call call) {
    Value value = call();
    Settle();
    return value;
  }
  void Check(const Value& value) {
    const uint64_t reads = tenant_->reads();
    tenant_->Read(value, nullptr);
    tenant_->Drop({value});
    Settle();
    EXPECT_EQ(tenant_->reads(), reads + 1);
    EXPECT_EQ(tenant_->errors(), 0u);
  }

  World world_;
  SimCluster cluster_;
  std::unique_ptr<Tenant> tenant_;
  std::vector<int32_t> devices_;
};

void ExpectAtMost(const Cost& cost, const Cost& bound, const std::string& what) {
  const auto check = [&](const Network::Count& is, const Network::Count& most, const std::string& way) {
    ::testing::Test::RecordProperty(absl::StrCat(what, "_frames_", way), absl::StrCat(is.frames));
    ::testing::Test::RecordProperty(absl::StrCat(what, "_bytes_", way), absl::StrCat(is.bytes));
    EXPECT_LE(is.frames, most.frames) << what << ", frames " << way;
    EXPECT_LE(is.bytes, most.bytes) << what << ", bytes " << way;
  };
  check(cost.to_hosts, bound.to_hosts, "to_hosts");
  check(cost.from_hosts, bound.from_hosts, "from_hosts");
  check(cost.between_hosts, bound.between_hosts, "between_hosts");
}

// `earlier`: calls before those that are measured.
Cost OfJitCall(int hosts, bool read = false, int earlier = 0) {
  Costs costs(hosts);
  Executable add;
  costs.tenant().Compile(costs.devices(), 1, 20, [&](Executable made) { add = std::move(made); });
  costs.Settle();
  EXPECT_TRUE(add.usable);
  const Value x = costs.tenant().Make(costs.devices(), {1, 2, 3, 4});
  costs.Settle();
  const auto call = [&] { return costs.tenant().Run(add, {x}); };
  for (int i = 0; i < earlier; ++i) costs.tenant().Drop({call()});
  costs.Settle();
  return read ? costs.OfCallAndRead(call) : costs.OfCall(call);
}

TEST(CostsTest, OfAJitCallOnOneHost) { ExpectAtMost(OfJitCall(1), {{1, 14}, {1, 13}, {0, 0}}, "jit_1"); }

// The bytes of the result travel with the news that the call has ended.
TEST(CostsTest, OfAJitCallWhoseResultIsAlwaysRead) { ExpectAtMost(OfJitCall(1, true), {{1, 23}, {1, 40}, {0, 0}}, "jit_1_read"); }

// Names grow with the number of the session's requests: by a byte here.
TEST(CostsTest, OfAJitCallAfterAThousandOthers) {
  ExpectAtMost(OfJitCall(1, false, 1000), {{1, 17}, {1, 14}, {0, 0}}, "jit_late");
}

// Hosts forget the names of settled requests while the session goes on: what they keep does not grow with the number of its calls.
TEST(CostsTest, NamesOfAThousandCallsAreForgotten) {
  constexpr int kHosts = 2;
  Costs costs(kHosts);
  Executable add;
  costs.tenant().Compile(costs.devices(), 1, 20, [&](Executable made) { add = std::move(made); });
  costs.Settle();
  const Value x = costs.tenant().Make(costs.devices(), {1, 2, 3, 4});
  for (int i = 0; i < 100; ++i) {
    for (int call = 0; call < 10; ++call) costs.tenant().Drop({costs.tenant().Run(add, {x})});
    costs.Settle();
    EXPECT_GT(costs.had_names(), 0);
    EXPECT_LE(costs.had_names(), kHosts * 100) << "after " << 10 * (i + 1) << " calls";
  }
}

// To each host the call; to each host that reports through another (report_groups.h) also that its completions have arrived, since no other
// message follows.
TEST(CostsTest, OfAJitCallOver64Hosts) { ExpectAtMost(OfJitCall(64), {{126, 1212}, {2, 1158}, {62, 992}}, "jit_64"); }

// x + 1, `computations` times, each time on the next host.
std::string Chain(int64_t computations, const std::vector<int32_t>& devices) {
  pathways::v1::Program program;
  program.set_name("chain");
  for (int32_t device : devices) {
    auto* executable = program.add_executables();
    executable->set_format("sim");
    executable->set_module("args=1 outputs=1 dims=4 us=1");
    executable->set_num_replicas(1);
    executable->set_num_partitions(1);
    executable->add_devices(device);
    program.add_shardings()->add_devices(device);
  }
  auto* arg = program.add_nodes()->mutable_arg();
  arg->set_dtype(static_cast<int>(buffers::DType::kF32));
  arg->add_dims(4);
  uint32_t value = 0, made = 1;
  for (int64_t c = 0; c < computations; ++c) {
    const auto place = static_cast<uint32_t>(static_cast<size_t>(c) % devices.size());
    if (c > 0) {
      auto* transfer = program.add_nodes()->mutable_transfer();
      transfer->set_input(value);
      transfer->set_sharding(place);
      value = made++;
    }
    auto* compute = program.add_nodes()->mutable_compute();
    compute->set_executable(place);
    compute->add_inputs(value);
    compute->set_num_outputs(1);
    value = made++;
  }
  program.add_nodes()->mutable_result()->set_input(value);
  return program.SerializeAsString();
}

TEST(CostsTest, OfAProgramOf1000ComputationsOver64Hosts) {
  constexpr int kHosts = 64;
  constexpr int64_t kComputations = 1000;
  Costs costs(kHosts);
  const std::string chain = Chain(kComputations, costs.devices());
  uint64_t program = 0;
  const Cost load = costs.Of([&] { costs.tenant().Load(chain, [&](uint64_t handle) { program = handle; }); });
  ASSERT_NE(program, 0u);
  ExpectAtMost(load, {{128, 175378}, {64, 5056}, {0, 0}}, "load");
  const Value x = costs.tenant().Make({costs.devices()[0]}, {1, 2, 3, 4});
  costs.Settle();
  constexpr auto kMore = static_cast<float>(kComputations);
  const std::vector<int32_t> last = {costs.devices()[(kComputations - 1) % kHosts]};
  const Places through = costs.tenant().PlacesOf(costs.devices(), {});
  const Cost call = costs.OfCall(
      [&] { return costs.tenant().RunProgram(program, x, last, {1 + kMore, 2 + kMore, 3 + kMore, 4 + kMore}, through); });
  ExpectAtMost(call, {{126, 1858}, {3, 1164}, {999 + 62, 27965}}, "program");  // 999 copies
}

// x + 1, then as long as the first element is below `limit`: x + 1 on each further host, and again on the first.
std::string Loop(int64_t limit, const std::vector<int32_t>& devices) {
  pathways::v1::Program program;
  program.set_name("loop");
  const auto add_executable = [&](int32_t device, const std::string& more) {
    auto* executable = program.add_executables();
    executable->set_format("sim");
    executable->set_module(absl::StrCat("args=1 outputs=1 dims=4 us=100", more));
    executable->set_num_replicas(1);
    executable->set_num_partitions(1);
    executable->add_devices(device);
  };
  for (int32_t device : devices) {
    add_executable(device, "");
    program.add_shardings()->add_devices(device);
  }
  add_executable(devices[0], absl::StrCat(" below=", limit));
  const auto decides = static_cast<uint32_t>(devices.size());
  const auto set_type = [](auto* type) {
    type->set_dtype(static_cast<int>(buffers::DType::kF32));
    type->add_dims(4);
  };
  const auto compute = [](pathways::v1::ProgramNode* node, uint32_t executable, uint32_t input, uint32_t outputs) {
    node->mutable_compute()->set_executable(executable);
    node->mutable_compute()->add_inputs(input);
    node->mutable_compute()->set_num_outputs(outputs);
  };
  auto* turn = program.add_branches();
  turn->set_name("turn");
  set_type(turn->add_nodes()->mutable_arg());
  turn->mutable_nodes(0)->mutable_arg()->set_donated(true);
  uint32_t value = 0, made = 1;
  for (uint32_t place = 1; place <= decides; ++place) {
    if (decides > 1) {
      auto* transfer = turn->add_nodes()->mutable_transfer();
      transfer->set_input(value);
      transfer->set_sharding(place % decides);
      value = made++;
    }
    compute(turn->add_nodes(), place, value, place == decides ? 2 : 1);
    value = made++;
  }
  turn->add_nodes()->mutable_result()->set_input(value);
  turn->add_nodes()->mutable_result()->set_input(value + 1);
  set_type(program.add_nodes()->mutable_arg());
  compute(program.add_nodes(), decides, 0, 2);
  auto* loop = program.add_nodes()->mutable_while_loop();
  loop->set_predicate(2);
  loop->add_inputs(1);
  set_type(loop->add_outputs());
  program.add_nodes()->mutable_result()->set_input(3);
  return program.SerializeAsString();
}

// The hosts decide about the turns: the controller's messages depend on the leases, each of which has the turns of some milliseconds.
class LoopCosts {
 public:
  explicit LoopCosts(int hosts) : hosts_(hosts), costs_(hosts) {
    x_ = costs_.tenant().Make({costs_.devices()[0]}, {0, 1, 2, 3});
    costs_.Settle();
  }
  Cost Of(int turns) {
    const auto limit = static_cast<float>(turns * hosts_ + 1);
    uint64_t program = 0;
    costs_.tenant().Load(Loop(static_cast<int64_t>(limit), costs_.devices()), [&](uint64_t handle) { program = handle; });
    costs_.Settle();
    EXPECT_NE(program, 0u);
    const Places through = costs_.tenant().PlacesOf(costs_.devices(), {});
    return costs_.OfCall([&] {
      return costs_.tenant().RunProgram(program, x_, {costs_.devices()[0]}, {limit, limit + 1, limit + 2, limit + 3}, through);
    });
  }

 private:
  const int hosts_;
  Costs costs_;
  Value x_;
};

TEST(CostsTest, OfALoopThatEndsAtOnce) { ExpectAtMost(LoopCosts(2).Of(0), {{2, 323}, {2, 64}, {1, 9}}, "loop_0"); }

TEST(CostsTest, OfTheTurnsOfALoop) {
  constexpr int kHosts = 4, kFew = 50, kTurns = 500;
  LoopCosts costs(kHosts);
  const Cost few = costs.Of(kFew), many = costs.Of(kTurns);
  // A turn takes 0.4 ms and the links between the hosts: a lease has eight of them, or more.
  constexpr uint64_t kLeases = (kTurns - kFew) / 8 + 2;
  EXPECT_LE(many.to_hosts.frames - few.to_hosts.frames, 2 * kHosts * kLeases);
  EXPECT_LE(many.from_hosts.frames - few.from_hosts.frames, 2 * kHosts * kLeases);
  // Each turn: a copy from each host to the next, and a decision to each but the first.
  EXPECT_GE(many.between_hosts.frames - few.between_hosts.frames, uint64_t{(kTurns - kFew) * (2 * kHosts - 1)});
}

}  // namespace
}  // namespace pw::sim
