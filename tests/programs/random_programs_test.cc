// Runs random programs, dispatched in both ways, and compares them with a model that computes every value at once: values and
// errors agree, and no array is left behind. Some programs have nodes that wait for values. Then several clients have several
// runs each at the same time, their functions answer and their indices arrive in random order, and some clients leave in the
// middle.
#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/names_sent.h"
#include "tests/programs/waiting_cluster.h"

namespace pw::programs {
namespace {

using Floats = std::vector<float>;

// The expected value, or the texts of the possible errors. If several inputs fail, timing decides which error is seen.
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
  std::optional<int32_t> index{};
};

// A program and its expected results. A place is a list of devices of one host: one device, or both.
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, int hosts, bool waits) : random_(seed), builder("random"), waits_(waits) {
    for (int h = 0; h < hosts; ++h) {
      for (auto devices : std::vector<std::vector<int>>{{2 * h}, {2 * h + 1}, {2 * h, 2 * h + 1}}) {
        places.push_back(devices);
        shardings_.push_back(builder.Sharding(devices));
        rows_.push_back(devices.size() == 2 ? builder.Sharding(devices, true) : shardings_.back());
      }
    }
    for (int i = 0, n = 1 + Below(6); i < n; ++i) AddExecutable();
    Scope whole{&builder, {}, {}, 0};
    for (int i = 0, n = Below(5); i < n; ++i) AddArg(whole);
    for (int i = 0, n = waits ? 1 + Below(3) : 0; i < n; ++i) AddIndex(whole);
    for (int i = 0, n = 1 + Below(20); i < n; ++i) AddNode(whole);
    for (int i = 0, n = 1 + Below(5); i < n && !whole.values.empty(); ++i) AddResult(whole);
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  Functions::Results Call(const controller::HostCall& call) const {
    const auto& [fails, outputs] = functions_.at(call.callback);
    if (fails) return absl::InternalError(absl::StrCat("function ", call.callback, " raised"));
    Floats sum(4, 10);
    for (size_t k = 0; k < call.data.size(); ++k) Add(&sum, k, Functions::Floats(call.data[k]));
    std::vector<Bytes> results;
    for (int k = 0; k < outputs; ++k) results.push_back(Functions::FromFloats(Shift({sum, {}}, k + 1).values));
    return results;
  }

  std::mt19937 random_;
  Waiting builder;
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
  struct Index {
    uint32_t id;
    int place;
    int32_t index;
    std::set<std::string> errors;
  };
  // The program, or a branch of it. A branch is generated together with its choice, so its inputs are known.
  struct Scope {
    Waiting* builder;
    std::vector<Value> values;
    std::vector<Index> indices;
    int depth;

    std::string NextNode() const {
      const int node = builder->proto.nodes_size();
      return absl::StrCat(" [at node ", node, " of ", builder->proto.name(), ": test.py:", node + 1, "]");
    }
  };

  static void Add(Floats* sum, size_t k, const Floats& values) {
    for (size_t i = 0; i < 4; ++i) (*sum)[i] += static_cast<float>(k + 1) * values[i];
  }
  // An error names the node where it began, or else the node that found it.
  static std::string Marked(const std::string& error, const std::string& node) {
    return absl::StrContains(error, "[at ") ? error : error + node;
  }
  int SinglePlace() { return 3 * Below(static_cast<int>(places.size()) / 3) + Below(2); }

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

  void AddArg(Scope& in) {
    Argument arg{Below(static_cast<int>(places.size())), Below(3) == 0, {}};
    if (Below(10) == 0) {
      arg.expected.errors = {absl::StrCat("argument ", args.size(), " burnt")};
    } else {
      for (int i = 0; i < 4; ++i) arg.expected.values.push_back(static_cast<float>(Below(8)));
    }
    in.values.push_back({builder.Arg(shardings_[arg.place], arg.donated), arg.place, false, arg.expected});
    args.push_back(arg);
  }
  void AddIndex(Scope& in) {
    Argument arg{SinglePlace(), false, {}, Below(5) - 1};
    if (Below(10) == 0) arg.expected.errors = {absl::StrCat("index ", args.size(), " burnt")};
    in.indices.push_back({builder.Index(shardings_[arg.place]), arg.place, *arg.index, arg.expected.errors});
    args.push_back(arg);
  }

  void AddNode(Scope& in) {
    if (!in.values.empty() && Below(4) == 0) {
      Move(in, Below(static_cast<int>(in.values.size())), Below(static_cast<int>(places.size())), Below(2) == 0);
      return;
    }
    if (waits_ && !in.values.empty() && Below(4) == 0) return Below(2) == 0 ? AddCall(in) : AddChoice(in);
    const Executable& e = executables_[Below(static_cast<int>(executables_.size()))];
    if (e.inputs > 0 && in.values.empty()) return;
    std::vector<uint32_t> inputs;
    Expected expected{Floats(4, 0), {}};
    for (int k = 0; k < e.inputs; ++k) {
      // The program itself moves two of three inputs to the place, if they are elsewhere. The controller moves the others.
      const size_t v = Below(static_cast<int>(in.values.size()));
      const Value& input = in.values[Below(3) == 0 ? v : At(in, v, e.place)];
      inputs.push_back(input.id);
      expected.errors.insert(input.expected.errors.begin(), input.expected.errors.end());
      if (input.expected.errors.empty()) Add(&expected.values, k, input.expected.values);
    }
    const std::string node = in.NextNode();
    const uint32_t first = in.builder->Compute(e.id, inputs, e.outputs);
    if (e.fails && expected.errors.empty()) expected.errors = {"boom" + node};
    for (int k = 0; k < e.outputs; ++k) in.values.push_back({first + k, e.place, false, Shift(expected, k + 1)});
  }
  static Expected Shift(Expected expected, int by) {
    for (float& x : expected.values) x += static_cast<float>(by);
    return expected;
  }

  // Adds a call of a function of the client, of one or two arrays.
  void AddCall(Scope& in) {
    std::vector<uint32_t> inputs;
    std::set<std::string> errors;
    Floats sum(4, 10);
    for (int k = 0, n = 1 + Below(2); k < n; ++k) {
      const Value& input = in.values[At(in, Below(static_cast<int>(in.values.size())), SinglePlace())];
      inputs.push_back(input.id);
      errors.insert(input.expected.errors.begin(), input.expected.errors.end());
      if (input.expected.errors.empty()) Add(&sum, k, input.expected.values);
    }
    const uint64_t callback = functions_.size();
    const int outputs = 1 + Below(2);
    functions_.push_back({Below(6) == 0, outputs});
    Expected expected{sum, {}};
    const std::string node = in.NextNode();
    for (const std::string& error : errors) expected.errors.insert(Marked(error, node));
    if (errors.empty() && functions_[callback].first) expected.errors = {absl::StrCat("function ", callback, " raised", node)};
    const std::vector<int> there = SomePlaces(outputs);
    const uint32_t first = in.builder->HostCall(inputs, ShardingsOf(there), callback);
    for (int k = 0; k < outputs; ++k) in.values.push_back({first + k, there[k], false, Shift(expected, k + 1)});
  }

  // Adds a choice among branches. The branches take some arrays and all indices, so they may choose too.
  void AddChoice(Scope& in) {
    if (in.indices.empty() || in.depth > 2) return;
    const Index index = in.indices[Below(static_cast<int>(in.indices.size()))];
    std::vector<uint32_t> inputs;
    std::vector<Value> given;
    for (int k = 0, n = 1 + Below(3); k < n; ++k) {
      const size_t v = Below(static_cast<int>(in.values.size()));
      given.push_back(in.values[At(in, v, in.values[v].place)]);
      inputs.push_back(given.back().id);
    }
    for (const Index& other : in.indices) inputs.push_back(other.id);
    const std::vector<int> there = SomePlaces(1 + Below(2));
    std::vector<uint32_t> branches;
    std::vector<std::vector<Expected>> made;
    for (int b = 0, n = 1 + Below(3); b < n; ++b) branches.push_back(AddBranch(in, given, there, &made.emplace_back()));
    std::vector<Expected> expected = made[std::clamp(index.index, 0, static_cast<int32_t>(branches.size()) - 1)];
    const std::string node = in.NextNode();
    for (Expected& one : expected) {
      if (index.errors.empty()) continue;
      one.errors.clear();
      for (const std::string& error : index.errors) one.errors.insert(Marked(error, node));
    }
    const uint32_t first = in.builder->Select(index.id, inputs, ShardingsOf(there), branches);
    for (size_t k = 0; k < there.size(); ++k)
      in.values.push_back({first + static_cast<uint32_t>(k), there[k], false, expected[k]});
  }
  uint32_t AddBranch(const Scope& in, const std::vector<Value>& given, const std::vector<int>& there,
                     std::vector<Expected>* expected) {
    Waiting branch(absl::StrCat("branch", next_branch_++));
    Scope scope{&branch, {}, {}, in.depth + 1};
    for (const Value& value : given)
      scope.values.push_back({branch.Arg(shardings_[value.place]), value.place, false, value.expected});
    for (const Index& index : in.indices)
      scope.indices.push_back({branch.Index(shardings_[index.place]), index.place, index.index, index.errors});
    for (int i = 0, n = Below(5); i < n; ++i) AddNode(scope);
    for (int place : there) {
      const Value& value = scope.values[At(scope, Below(static_cast<int>(scope.values.size())), place)];
      branch.Result(value.id);
      expected->push_back(value.expected);
    }
    return builder.AddBranch(branch);
  }

  std::vector<int> SomePlaces(int count) {
    std::vector<int> some;
    for (int k = 0; k < count; ++k) some.push_back(Below(static_cast<int>(places.size())));
    return some;
  }
  std::vector<uint32_t> ShardingsOf(const std::vector<int>& some) const {
    std::vector<uint32_t> shardings;
    for (int place : some) shardings.push_back(shardings_[place]);
    return shardings;
  }

  // Returns a value equal to v, whole on each device of the place. Adds a transfer if v is elsewhere, and sometimes if it is not.
  size_t At(Scope& in, size_t v, int place) {
    if (in.values[v].place == place && !in.values[v].rows && Below(8) != 0) return v;
    return Move(in, v, place, false);
  }
  size_t Move(Scope& in, size_t v, int place, bool rows) {
    in.values.push_back({in.builder->Transfer(in.values[v].id, rows ? rows_[place] : shardings_[place]), place,
                         rows && places[place].size() == 2, in.values[v].expected});
    return in.values.size() - 1;
  }

  void AddResult(Scope& in) {
    const int n = static_cast<int>(in.values.size());
    const Value& value = in.values[At(in, Below(n), in.values[Below(n)].place)];
    builder.Result(value.id);
    results.push_back(value.expected);
  }

  const bool waits_;
  int next_branch_ = 0;
  std::vector<uint32_t> shardings_, rows_;
  std::vector<Executable> executables_;
  std::vector<std::pair<bool, int>> functions_;  // whether it fails, how many arrays it returns
};

// A client with its own program.
class RandomClient {
 public:
  RandomClient(ProgramCluster* world, uint32_t seed, int hosts, bool waits)
      : world_(world), random_(seed, hosts, waits), functions_(std::make_shared<Functions>()) {
    world->Open();
    session_ = world->session;
    world->cluster->SetHostCallHandler(session_->id(), functions_);
    functions_->compute = [this](const controller::HostCall& call) { return random_.Call(call); };
    auto program = world->Load(random_.builder.proto);
    EXPECT_TRUE(program.ok()) << program.status();
    program_ = program.ok() ? (*program)->handle : 0;
  }

  // Begins a run, and drops the arguments at once. Each call is a request, with the next number.
  void Begin() {
    Enter();
    std::vector<Handle> args;
    for (const Argument& arg : random_.args) {
      args.push_back(next_++);
      const absl::Status status = Request([&] { return Put(args.back(), arg); });
      ASSERT_TRUE(status.ok()) << status;
    }
    std::vector<Handle>& mine = results_.emplace_back();
    for (size_t r = 0; r < random_.results.size(); ++r) mine.push_back(next_++);
    auto reply = Request([&] { return world_->Execute(program_, args, mine); });
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(impl().num_arrays(), all_.size() + args.size() + mine.size());
    ASSERT_TRUE(Request([&] { return session_->Destruct(args); }).ok());
    all_.insert(all_.end(), mine.begin(), mine.end());
  }
  // Delivers one value that a run waits for, which `turns` chooses, if given. Returns false if no run waits.
  bool GoOn(std::mt19937* turns = nullptr) {
    const int calls = static_cast<int>(functions_->calls.size()), all = calls + static_cast<int>(late_.size());
    if (all == 0) return false;
    const int number = turns != nullptr ? static_cast<int>((*turns)() % static_cast<uint32_t>(all)) : random_.Below(all);
    if (number < calls) {
      functions_->Answer(static_cast<size_t>(number));
    } else {
      const auto it = late_.begin() + (number - calls);
      EXPECT_TRUE(session_->StoreHostBuffer(World::kLater + it->first, Bytes::Copy(World::BytesOf(it->second))).ok());
      late_.erase(it);
    }
    return true;
  }
  void Check() {
    Enter();
    for (const std::vector<Handle>& run : results_) {
      for (size_t r = 0; r < run.size(); ++r) {
        const Expected& expected = random_.results[r];
        auto values = world_->Floats(run[r]);
        if (expected.errors.empty()) {
          ASSERT_TRUE(values.ok()) << "result " << r << ": " << values.status();
          EXPECT_EQ(*values, expected.values) << "result " << r;
        } else {
          EXPECT_THAT(expected.errors, ::testing::Contains(std::string(values.status().message()))) << "result " << r;
        }
      }
    }
    ASSERT_TRUE(session_->Destruct(all_).ok());
    EXPECT_EQ(impl().num_arrays(), 0u);
    EXPECT_EQ(impl().num_program_runs(), 0u);
  }
  void Leave() {
    world_->session = nullptr;
    session_ = nullptr;
    functions_->calls.clear();
    late_.clear();
  }
  bool left() const { return session_ == nullptr; }
  int Below(int n) { return random_.Below(n); }

 private:
  void Enter() { world_->session = session_; }
  template <class F>
  std::invoke_result_t<F> Request(F call) {
    session_->BeginRequest(++request_);
    auto result = call();
    session_->EndRequest();
    return result;
  }
  controller::SessionImpl& impl() { return static_cast<controller::SessionImpl&>(*session_); }
  absl::Status Put(Handle handle, const Argument& arg) {
    buffers::ArraySpec spec = On(random_.places[arg.place]);
    if (arg.index.has_value()) spec = World::Scalar(random_.places[arg.place][0]);
    const auto& errors = arg.expected.errors;
    if (!errors.empty()) return world_->session->MakeErrorArray(handle, spec, absl::DataLossError(*errors.begin()));
    if (!arg.index.has_value()) return world_->PutFloats(handle, spec, arg.expected.values);
    if (random_.Below(2) == 0) return world_->Put(handle, spec, World::BytesOf(*arg.index));
    late_.push_back({handle, *arg.index});
    return session_->MakeArray(handle, spec,
                               {controller::HostShard{World::kLater + handle, {spec.dtype, {}, std::nullopt}, {0}}});
  }

  ProgramCluster* const world_;
  RandomProgram random_;
  const std::shared_ptr<Functions> functions_;
  std::shared_ptr<controller::Session> session_;
  Handle program_ = 0, next_ = 1;
  uint64_t request_ = 0;
  std::vector<std::vector<Handle>> results_;  // of each run
  std::vector<Handle> all_;
  std::vector<std::pair<Handle, int32_t>> late_;  // indices
};

void ExpectNothingLeft(ProgramCluster& world, int hosts) {
  for (int h = 0; h < hosts; ++h) EXPECT_EQ(world.Arrays(h), 0) << "host " << h;
  EXPECT_EQ(world.cluster->fabric().ops().size(), 0u);
  EXPECT_EQ(world.cluster->fabric().gangs().scheduler().gangs(), 0u);
}

void Check(uint32_t seed, int hosts, bool sequential) {
  SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", hosts, " hosts, ", sequential ? "sequential" : "parallel"));
  ProgramCluster world(hosts, sequential);
  RandomClient client(&world, seed, hosts, false);
  for (int run = 0; run < 3; ++run) {  // at the same time
    ASSERT_NO_FATAL_FAILURE(client.Begin());
    if (client.Below(2) == 0) world.Run();
  }
  ASSERT_NO_FATAL_FAILURE(client.Check());
  for (int h = 0; h < hosts && !sequential; ++h) EXPECT_LE(world.Runs(h), 3u);
  ExpectNothingLeft(world, hosts);
}

TEST(RandomPrograms, GiveTheSameInParallelInSequenceAndInTheModel) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    const int hosts = 1 + static_cast<int>(seed % 3);
    Check(seed, hosts, false);
    Check(seed, hosts, true);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Runs several clients, one of which leaves in the middle.
void CheckWaiting(uint32_t seed, int hosts, bool sequential) {
  SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", hosts, " hosts, ", sequential ? "sequential" : "parallel"));
  controller::ClusterOptions options = ProgramCluster::Options(sequential);
  if (seed % 2 == 0) {  // short queues of the devices
    options.gang.window_gangs = 1;
    options.gang.window_ns = 0;
  }
  ProgramCluster world(hosts, options);
  std::vector<std::unique_ptr<RandomClient>> clients;
  for (uint32_t c = 0; c < 3; ++c) clients.push_back(std::make_unique<RandomClient>(&world, 10 * seed + c, hosts, true));
  RandomClient& first = *clients[0];
  const int leaves = first.Below(3) == 0 ? first.Below(9) : -1;
  for (int turn = 0; turn < 9; ++turn) {
    if (turn == leaves) first.Leave();
    RandomClient& client = *clients[turn % 3];
    if (!client.left()) {
      ASSERT_NO_FATAL_FAILURE(client.Begin());
    }
    if (client.Below(2) == 0) world.Run();
    if (client.Below(2) == 0) clients[client.Below(3)]->GoOn();
  }
  world.Run();
  for (bool more = true; more; world.Run()) {
    more = false;
    for (auto& client : clients) more |= client->GoOn();
  }
  for (auto& client : clients) {
    if (!client->left()) {
      ASSERT_NO_FATAL_FAILURE(client->Check());
    }
  }
  ExpectNothingLeft(world, hosts);
}

TEST(RandomPrograms, WithNodesThatWaitForValuesTheyDoSoToo) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const int hosts = 1 + static_cast<int>(seed % 3);
    CheckWaiting(seed, hosts, false);
    CheckWaiting(seed, hosts, true);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

// Returns what the hosts were told to make. `order`: of the clients' calls, of the hosts' answers, and of the values that runs wait for.
controller::NamesSent::Commands NamesInOrder(uint32_t seed, int hosts, bool sequential, uint32_t order) {
  ProgramCluster world(hosts, sequential);
  std::vector<std::unique_ptr<RandomClient>> clients;
  for (uint32_t c = 0; c < 2; ++c) clients.push_back(std::make_unique<RandomClient>(&world, 10 * seed + c, hosts, c == 0));
  controller::NamesSent names;
  for (int h = 0; h < hosts; ++h) {
    world.real[h]->transport().on_frame = [&names, h](const std::string& header) {
      ::pathways::v1::ToWorker batch;
      ASSERT_TRUE(batch.ParseFromString(header));
      for (const auto& command : batch.commands()) names.Add(h, command);
    };
    world.real[h]->transport().Hold(true);
  }
  std::mt19937 turns(order);
  const auto answer = [&] {
    const bool one = world.real[turns() % static_cast<uint32_t>(hosts)]->transport().LetGo();
    world.Run();
    return one;
  };
  std::vector<int> left(clients.size(), 2);
  while (left[0] + left[1] > 0) {
    const size_t c = left[1] == 0 ? 0 : left[0] == 0 ? 1 : turns() % 2;
    --left[c];
    clients[c]->Begin();
    if (turns() % 2 == 0) world.Run();
    if (turns() % 2 == 0) answer();
    if (turns() % 3 == 0) clients[0]->GoOn(&turns);
  }
  for (int idle = 0; idle < 20;) idle = answer() || clients[turns() % 2]->GoOn(&turns) ? 0 : idle + 1;
  for (auto& worker : world.real) {
    worker->transport().Hold(false);
    world.Run();
    worker->transport().on_frame = [](const std::string&) {};  // reads have no numbers
  }
  for (bool more = true; more; world.Run()) {
    more = false;
    for (auto& client : clients) more |= client->GoOn();
  }
  for (auto& client : clients) client->Check();
  ExpectNothingLeft(world, hosts);
  return names.commands();
}

TEST(RandomPrograms, AreNamedTheSameInWhateverOrderTheyGoOn) {
  size_t commands = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const int hosts = 1 + static_cast<int>(seed % 3);
    for (const bool sequential : {false, true}) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", ", hosts, " hosts, ", sequential ? "sequential" : "parallel"));
      const auto first = NamesInOrder(seed, hosts, sequential, 1);
      for (const auto& [key, texts] : first) EXPECT_FALSE(texts.begin()->second.own) << texts.begin()->first;
      commands += first.size();
      for (uint32_t order = 2; order <= 3; ++order) ASSERT_EQ(NamesInOrder(seed, hosts, sequential, order), first);
      if (HasNonfatalFailure()) return;
    }
  }
  EXPECT_GT(commands, 1000u);
}

}  // namespace
}  // namespace pw::programs
