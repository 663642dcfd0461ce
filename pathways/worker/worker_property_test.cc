// Random command streams, overlapped at random, give the same results as the same commands run one by one; and so they do if commands come
// again at random, as long as their requests are not settled.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

constexpr int kDevices = 2;

// A shard in the model: its elements, or the errors that it may report. If several inputs fail at about the same time, either error is
// valid.
struct ModelShard {
  std::vector<float> values;
  std::set<std::string> errors;
};
using ModelArray = std::vector<ModelShard>;  // one per device

struct ModelProgram {
  const char* text;
  int args;
  int outputs;
  int donate = -1;
  const char* error = nullptr;
};
constexpr ModelProgram kPrograms[] = {
    {"args=1 outputs=1 dims=2", 1, 1},
    {"args=2 outputs=1 dims=2 donate=0", 2, 1, 0},
    {"args=2 outputs=2 dims=2 donate=1", 2, 2, 1},
    {"args=1 outputs=1 dims=2 fail=boom", 1, 1, -1, "boom"},
    {"args=0 outputs=1 dims=2", 0, 1},
};

// Runs the commands one by one.
class Model {
 public:
  std::map<uint64_t, ModelArray> arrays;

  void Execute(const ModelProgram& program, const std::vector<uint64_t>& args, const std::vector<uint64_t>& results) {
    std::set<std::string> errors;
    for (uint64_t a : args) {
      for (const ModelShard& shard : arrays.at(a)) errors.insert(shard.errors.begin(), shard.errors.end());
    }
    if (errors.empty() && program.error != nullptr) errors.insert(program.error);
    for (int k = 0; k < program.outputs; ++k) {
      ModelArray& out = arrays[results[k]];
      out.assign(kDevices, {{}, errors});
      for (int d = 0; errors.empty() && d < kDevices; ++d) {
        for (int e = 0; e < 2; ++e) {
          float sum = static_cast<float>(k + 1);
          for (size_t i = 0; i < args.size(); ++i) sum += static_cast<float>(i + 1) * arrays.at(args[i])[d].values[e];
          out[d].values.push_back(sum);
        }
      }
    }
    if (program.donate >= 0) arrays.erase(args[program.donate]);
  }
};

class RandomStream {
 public:
  RandomStream(uint32_t seed, bool repeats) : random_(seed), repeats_(repeats), w_(MakeSetup()) {
    for (size_t i = 0; i < std::size(kPrograms); ++i) w_.Compile(i + 1, kPrograms[i].text, {0, 1});
    w_.Settle();
    w_.hold_commands = true;
    w_.connection.repeats = repeats;
    if (repeats) w_.on_command = [this](const v1::Command& command, const std::string& payload) { Note(command, payload); };
  }

  void Run(int commands) {
    for (int i = 0; i < commands; ++i) {
      Step();
      while (repeats_ && Pick(2) == 0) Repeat();
      while (Pick(3) > 0) RunSomething();
    }
    while (!late_.empty()) SendLate();
    w_.Settle();
    Check();
  }

 private:
  static WorkerHarness::Setup MakeSetup() {
    WorkerHarness::Setup setup;
    setup.devices = kDevices;
    return setup;
  }

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  // Each object is made by a request of its own. What belongs to the command of a request has the request's number, more or less
  // (WorkerHarness::PutCommand), so Note looks at the latest request instead.
  uint64_t NewName() { return *RequestName{SessionId(1), ++request_, 0, false}.Number(); }
  uint64_t NewArray() { return NewName(); }
  uint64_t NewOp() {
    ops_.push_back(NewName());
    return ops_.back();
  }
  uint64_t AnyArray() {
    auto it = model_.arrays.begin();
    std::advance(it, Pick(static_cast<int>(model_.arrays.size())));
    return it->first;
  }

  struct Sent {
    uint64_t request;
    v1::Command command;
    std::string payload;
  };
  void Note(const v1::Command& command, const std::string& payload) {
    if (!repeating_) sent_.push_back({request_, command, payload});
  }
  void Repeat() {
    if (sent_.empty()) return;
    const Sent& one = sent_[static_cast<size_t>(Pick(static_cast<int>(sent_.size())))];
    repeating_ = true;
    w_.Do(one.command, one.payload);
    repeating_ = false;
    if (Pick(20) == 0) TellSettled();
  }
  // Settles the requests before the first one that is not answered, or whose bytes have not been sent.
  void TellSettled() {
    if (!late_.empty()) return;
    uint64_t settled = request_;
    for (uint64_t op : ops_) {
      if (w_.connection.done.contains(op) || w_.connection.fetched.contains(op)) continue;
      settled = RequestName::Read(op)->request - 1;
      break;
    }
    w_.TellSettled(settled);
    std::erase_if(sent_, [&](const Sent& one) { return one.request <= settled; });
  }

  void Step() {
    const int kind = model_.arrays.empty() ? 0 : Pick(16);
    if (kind <= 2)
      Put();
    else if (kind <= 8)
      Execute();
    else if (kind <= 10)
      Alias();
    else if (kind <= 12)
      Move();
    else if (kind == 13)
      Poison();
    else if (kind == 14)
      Fetch(AnyArray(), Pick(kDevices));
    else
      Release();
  }

  void Put() {
    const uint64_t array = NewArray(), op = NewOp();
    const std::vector<float> values = {static_cast<float>(Pick(4)), static_cast<float>(Pick(4))};
    model_.arrays[array].assign(kDevices, {values, {}});
    if (Pick(2) == 0) return w_.Put(op, array, values);
    w_.PutLater(op, array, 2);
    if (Pick(5) == 0) {  // its data never arrives
      v1::Command abort;
      abort.mutable_abort_transfer()->set_transfer(op + 1000000);
      abort.mutable_abort_transfer()->mutable_status()->set_code(1);
      abort.mutable_abort_transfer()->mutable_status()->set_message("aborted");
      model_.arrays[array].assign(kDevices, {{}, {"aborted"}});
      late_.push_back([this, abort] { w_.Do(abort); });
    } else {
      late_.push_back([this, op, values] { w_.SendChunks(op, values, 4); });
    }
  }

  void Execute() {
    const size_t index = static_cast<size_t>(Pick(std::size(kPrograms)));
    const ModelProgram& program = kPrograms[index];
    std::vector<uint64_t> args, results;
    for (int i = 0; i < program.args; ++i) args.push_back(AnyArray());
    if (program.donate >= 0 && args[0] == args[1] && Pick(4) > 0) return;  // allowed, but rare
    for (int k = 0; k < program.outputs; ++k) results.push_back(NewArray());
    w_.Execute(NewOp(), index + 1, args, results);
    model_.Execute(program, args, results);
  }

  void Alias() {
    const uint64_t array = NewArray(), source = AnyArray();
    w_.Alias(NewOp(), array, 0, source, 0);
    w_.Alias(NewOp(), array, 1, source, 1);
    model_.arrays[array] = model_.arrays.at(source);
  }

  // Each shard of the new array is a copy of a shard, or takes one element of each shard.
  void Move() {
    const uint64_t array = NewArray(), source = AnyArray();
    v1::Command command;
    auto* move = command.mutable_move();
    move->set_op(NewOp());
    move->set_session(1);
    ModelArray made;
    for (int d = 0; d < kDevices; ++d) {
      auto* receive = move->add_receives();
      receive->set_array(array);
      receive->set_shard(d);
      receive->set_local_device(d);
      receive->set_dtype(11);
      receive->add_dims(2);
      const ModelArray& from = model_.arrays.at(source);
      auto add = [&](int to, int from_shard, int start, int size) {
        auto* piece = receive->add_pieces();
        piece->mutable_to()->add_start(to);
        piece->mutable_to()->add_size(size);
        piece->set_source_array(source);
        piece->set_source_shard(from_shard);
        piece->mutable_from()->add_start(start);
        piece->mutable_from()->add_size(size);
        piece->set_from_host(1);
      };
      ModelShard shard;
      if (Pick(2) == 0) {
        const int s = Pick(kDevices);
        add(0, s, 0, 2);
        shard = from[s];
      } else {
        add(0, 0, 1, 1);
        add(1, 1, 0, 1);
        for (int s = 0; s < 2; ++s) shard.errors.insert(from[s].errors.begin(), from[s].errors.end());
        if (shard.errors.empty()) shard.values = {from[0].values[1], from[1].values[0]};
      }
      made.push_back(shard);
    }
    w_.Do(command);
    model_.arrays[array] = made;
  }

  void Poison() {
    const uint64_t array = NewArray();
    v1::Command command;
    command.mutable_poison()->set_session(1);
    command.mutable_poison()->add_arrays(array);
    command.mutable_poison()->mutable_error()->set_code(3);
    command.mutable_poison()->mutable_error()->set_message("poison");
    w_.Do(command);
    model_.arrays[array].assign(kDevices, {{}, {"poison"}});
  }

  void Release() {
    const uint64_t array = AnyArray();
    w_.Release(array);
    model_.arrays.erase(array);
  }

  void Fetch(uint64_t array, int shard) {
    const uint64_t fetch = NewOp();
    w_.Fetch(fetch, array, shard);
    expected_[fetch] = model_.arrays.at(array)[shard];
  }

  void SendLate() {
    const size_t index = static_cast<size_t>(Pick(static_cast<int>(late_.size())));
    auto task = std::move(late_[index]);
    late_.erase(late_.begin() + static_cast<int64_t>(index));
    task();
  }

  void RunSomething() {
    switch (Pick(4)) {
      case 0:
      case 1:
        w_.executor.RunOne();
        return;
      case 2:
        w_.device_executor.RunOne();
        return;
      default:
        if (!late_.empty() && Pick(3) == 0) SendLate();
    }
  }

  void Check() {
    for (const auto& [array, shards] : model_.arrays) {
      for (int d = 0; d < kDevices; ++d) Fetch(array, d);
    }
    w_.Settle();
    for (const auto& [fetch, shard] : expected_) {
      ASSERT_EQ(w_.connection.fetched.count(fetch), 1u) << "fetch " << fetch << " was not answered";
      const v1::Fetched& fetched = w_.connection.fetched.at(fetch);
      if (shard.errors.empty()) {
        ASSERT_EQ(fetched.status().code(), 0) << fetched.status().message();
        ASSERT_EQ(Floats(w_.connection.fetched_bytes.at(fetch)), shard.values) << "fetch " << fetch;
      } else {
        ASSERT_EQ(shard.errors.count(fetched.status().message()), 1u) << fetched.status().message();
      }
    }
    // Only named arrays hold memory.
    EXPECT_EQ(w_.worker->arrays(), static_cast<int64_t>(model_.arrays.size()));
    std::vector<uint64_t> names;
    for (const auto& [array, shards] : model_.arrays) names.push_back(array);
    for (uint64_t name : names) w_.Release(name);
    w_.hold_commands = false;
    EXPECT_EQ(w_.Memory().devices(0).used_bytes(), 0);
    for (uint64_t op : ops_) {
      if (expected_.count(op) > 0) continue;  // a fetch
      EXPECT_EQ(w_.connection.done.count(op), 1u) << "op " << op << " was not reported";
    }
    w_.TellSettled(UINT64_MAX);
    EXPECT_EQ(w_.worker->had_names(), 0);
  }

  std::mt19937 random_;
  const bool repeats_;
  WorkerHarness w_;
  Model model_;
  uint64_t request_ = 0;
  std::vector<uint64_t> ops_;  // and fetches
  std::vector<Sent> sent_;
  bool repeating_ = false;
  std::vector<std::function<void()>> late_;
  std::map<uint64_t, ModelShard> expected_;
};

void RunSeeds(bool repeats) {
  const char* chosen = std::getenv("PW_TEST_SEED");
  const uint32_t first = chosen != nullptr ? static_cast<uint32_t>(std::atoi(chosen)) : 1;
  const uint32_t runs = chosen != nullptr ? 1 : 300;
  for (uint32_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE("PW_TEST_SEED=" + std::to_string(seed));
    RandomStream(seed, repeats).Run(60);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(WorkerProperty, OverlappedCommandsLookAsIfRunOneByOne) { RunSeeds(false); }

TEST(WorkerProperty, CommandsThatComeAgainAreNotDoneAgain) { RunSeeds(true); }

}  // namespace
}  // namespace pw::worker
