// Random programs, dispatched in both ways, against a model that computes every value on the spot: same values, same errors, nothing
// left behind.
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/programs/program_cluster.h"

namespace pw::programs {
namespace {

using Floats = std::vector<float>;

// What a value is, or why it is not: the texts of the errors that can be the reason. Which of several inputs is seen to have failed is
// a matter of time.
struct Expected {
  Floats values;
  std::set<std::string> errors;
};

struct Executable {
  uint32_t id;
  int place;
  int inputs;
  int outputs;
  bool fails;
};

struct Argument {
  int place;
  bool donated;
  Expected expected;
};

// A program with what it must give. Places are lists of devices of one host: one device, or both.
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, int hosts) : random_(seed), builder("random") {
    for (int h = 0; h < hosts; ++h) {
      for (auto devices : std::vector<std::vector<int>>{{2 * h}, {2 * h + 1}, {2 * h, 2 * h + 1}}) {
        places.push_back(devices);
        shardings_.push_back(builder.Sharding(devices));
        rows_.push_back(devices.size() == 2 ? builder.Sharding(devices, true) : shardings_.back());
      }
    }
    for (int i = 0, n = 1 + Below(6); i < n; ++i) AddExecutable();
    for (int i = 0, n = Below(5); i < n; ++i) AddArg();
    for (int i = 0, n = 1 + Below(20); i < n; ++i) AddNode();
    for (int i = 0, n = 1 + Below(5); i < n && !values_.empty(); ++i) AddResult();
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  std::mt19937 random_;
  Builder builder;
  std::vector<std::vector<int>> places;
  std::vector<Argument> args;
  std::vector<Expected> results;

 private:
  struct Value {
    uint32_t id;
    int place;
    bool rows;  // cut over the place's devices
    Expected expected;
  };

  void AddExecutable() {
    Executable e{0, Below(static_cast<int>(places.size())), Below(4), 1 + Below(2), Below(8) == 0};
    std::string recipe = absl::StrCat("dims=4 args=", e.inputs, " outputs=", e.outputs);
    std::vector<int> donated;
    for (int k = 0; k < e.inputs; ++k) {
      if (Below(3) == 0) donated.push_back(k);
    }
    if (!donated.empty()) absl::StrAppend(&recipe, " donate=", absl::StrJoin(donated, ","));
    if (e.fails) absl::StrAppend(&recipe, " fail=boom");
    e.id = builder.Executable(recipe, places[e.place]);
    executables_.push_back(e);
  }

  void AddArg() {
    Argument arg{Below(static_cast<int>(places.size())), Below(3) == 0, {}};
    if (Below(10) == 0) {
      arg.expected.errors = {absl::StrCat("argument ", args.size(), " burnt")};
    } else {
      for (int i = 0; i < 4; ++i) arg.expected.values.push_back(static_cast<float>(Below(8)));
    }
    values_.push_back({builder.Arg(shardings_[arg.place], arg.donated), arg.place, false, arg.expected});
    args.push_back(arg);
  }

  void AddNode() {
    if (!values_.empty() && Below(4) == 0) {
      Move(Below(static_cast<int>(values_.size())), Below(static_cast<int>(places.size())), Below(2) == 0);
      return;
    }
    const Executable& e = executables_[Below(static_cast<int>(executables_.size()))];
    if (e.inputs > 0 && values_.empty()) return;
    std::vector<uint32_t> inputs;
    Expected expected{Floats(4, 0), {}};
    for (int k = 0; k < e.inputs; ++k) {
      // Often the program says how an input gets there; else it is left to the controller.
      const size_t v = Below(static_cast<int>(values_.size()));
      const Value& input = values_[Below(3) == 0 ? v : At(v, e.place)];
      inputs.push_back(input.id);
      expected.errors.insert(input.expected.errors.begin(), input.expected.errors.end());
      for (int i = 0; i < 4 && input.expected.errors.empty(); ++i)
        expected.values[i] += static_cast<float>(k + 1) * input.expected.values[i];
    }
    const int node = builder.proto.nodes_size();
    const uint32_t first = builder.Compute(e.id, inputs, e.outputs);
    if (e.fails && expected.errors.empty())
      expected.errors = {absl::StrCat("boom [at node ", node, " of random: test.py:", node + 1, "]")};
    for (int k = 0; k < e.outputs; ++k) values_.push_back({first + k, e.place, false, Shift(expected, k + 1)});
  }
  static Expected Shift(Expected expected, int by) {
    for (float& x : expected.values) x += static_cast<float>(by);
    return expected;
  }

  // A value equal to v in a place, whole on each of its devices. Moved there if it is elsewhere, and sometimes if it is not.
  size_t At(size_t v, int place) {
    if (values_[v].place == place && !values_[v].rows && Below(8) != 0) return v;
    return Move(v, place, false);
  }
  size_t Move(size_t v, int place, bool rows) {
    values_.push_back({builder.Transfer(values_[v].id, rows ? rows_[place] : shardings_[place]), place,
                       rows && places[place].size() == 2, values_[v].expected});
    return values_.size() - 1;
  }

  void AddResult() {
    const Value& value = values_[At(Below(static_cast<int>(values_.size())), values_[Below(static_cast<int>(values_.size()))].place)];
    builder.Result(value.id);
    results.push_back(value.expected);
  }

  std::vector<uint32_t> shardings_, rows_;
  std::vector<Executable> executables_;
  std::vector<Value> values_;
};

void Check(uint32_t seed, int hosts, bool sequential) {
  SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", hosts, " hosts, ", sequential ? "sequential" : "parallel"));
  RandomProgram random(seed, hosts);
  ProgramCluster world(hosts, sequential);
  auto program = world.Load(random.builder.proto);
  ASSERT_TRUE(program.ok()) << program.status();
  Handle next = 1;
  std::vector<std::vector<Handle>> results;
  std::vector<Handle> all;
  // Several runs at once, with arrays that go as soon as they have been passed on.
  for (int run = 0; run < 3; ++run) {
    std::vector<Handle> args;
    for (const Argument& arg : random.args) {
      args.push_back(next++);
      const buffers::ArraySpec spec = On(random.places[arg.place]);
      const auto& errors = arg.expected.errors;
      ASSERT_TRUE((errors.empty() ? world.PutFloats(args.back(), spec, arg.expected.values)
                                  : world.session->MakeErrorArray(args.back(), spec, absl::DataLossError(*errors.begin())))
                      .ok());
    }
    std::vector<Handle>& mine = results.emplace_back();
    for (size_t r = 0; r < random.results.size(); ++r) mine.push_back(next++);
    auto reply = world.Execute((*program)->handle, args, mine);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(world.impl().num_arrays(), all.size() + args.size() + mine.size());
    ASSERT_TRUE(world.session->Destruct(args).ok());
    all.insert(all.end(), mine.begin(), mine.end());
    if (random.Below(2) == 0) world.Run();
  }
  for (const std::vector<Handle>& run : results) {
    for (size_t r = 0; r < run.size(); ++r) {
      const Expected& expected = random.results[r];
      auto values = world.Floats(run[r]);
      if (expected.errors.empty()) {
        ASSERT_TRUE(values.ok()) << "result " << r << ": " << values.status();
        EXPECT_EQ(*values, expected.values) << "result " << r;
      } else {
        EXPECT_THAT(expected.errors, ::testing::Contains(std::string(values.status().message()))) << "result " << r;
      }
    }
  }
  for (int h = 0; h < hosts && !sequential; ++h) EXPECT_LE(world.Sent(h, ::pathways::v1::Command::kRunProgram), 3u);
  ASSERT_TRUE(world.session->Destruct(all).ok());
  for (int h = 0; h < hosts; ++h) EXPECT_EQ(world.Arrays(h), 0) << "host " << h;
  EXPECT_EQ(world.impl().num_arrays(), 0u);
  EXPECT_EQ(world.impl().num_program_runs(), 0u);
  EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
}

TEST(RandomPrograms, GiveTheSameInParallelInSequenceAndInTheModel) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    const int hosts = 1 + static_cast<int>(seed % 3);
    Check(seed, hosts, false);
    Check(seed, hosts, true);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace pw::programs
