// Random programs of several users, with small memories, quotas and kills: a user never has more than the quota, and when all sessions have
// ended nothing is charged to anybody.
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

constexpr uint64_t kSessions = 3;  // 1 and 2 are Ada's, 3 is Bob's
constexpr const char* kCharged[] = {
    "args=1 outputs=1 dims=4",
    "args=2 outputs=2 dims=4 donate=1",
    "args=1 outputs=1 dims=4 fail=boom",
    "args=1 outputs=1 dims=4 hold=1",
};
constexpr int kArguments[] = {1, 2, 1, 1};
constexpr int kResults[] = {1, 2, 1, 1};

class RandomCharges {
 public:
  explicit RandomCharges(uint32_t seed) : random_(seed), w_(MakeSetup(Pick(3) == 0 ? 0 : 40 + 16 * Pick(6))) {
    for (int64_t* quota : {&quota_of_["ada"], &quota_of_["bob"]}) *quota = Pick(4) == 0 ? -1 : 16 * Pick(6);
    for (uint64_t session = 1; session <= kSessions; ++session) {
      open_.insert(session);
      for (size_t i = 0; i < std::size(kCharged); ++i) w_.Compile(Program(session, i), kCharged[i], {0, 1}, session);
    }
    Configure();
    w_.Settle();
    w_.hold_commands = true;
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !open_.empty(); ++i) {
      Step(AnyOpen());
      while (Pick(3) > 0) RunSomething();
      ASSERT_NO_FATAL_FAILURE(CheckQuotas());
    }
    while (!open_.empty()) Kill(AnyOpen());
    w_.Settle();
    w_.runtime.ReleaseHeld();
    w_.Settle();
    while (!late_.empty()) SendLate();
    w_.Settle();
    EXPECT_EQ(w_.worker->charged_bytes(), 0);
    EXPECT_EQ(w_.worker->arrays(), 0);
    EXPECT_EQ(w_.worker->Health().memory_waits(), 0);
    const v1::MemoryReport memory = w_.Memory();
    for (const auto& device : memory.devices()) {
      EXPECT_EQ(device.used_bytes(), 0);
      EXPECT_TRUE(device.used_by_session().empty());
    }
    EXPECT_EQ(w_.worker->Metrics().spilled_bytes(), 0);
  }

 private:
  static WorkerHarness::Setup MakeSetup(int64_t device_bytes) {
    WorkerHarness::Setup setup;
    setup.limits.device_memory_bytes = device_bytes;
    return setup;
  }
  static uint64_t Program(uint64_t session, size_t i) { return session * 10 + i; }
  static std::string UserOf(uint64_t session) { return session < kSessions ? "ada" : "bob"; }

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  uint64_t AnyOpen() { return *std::next(open_.begin(), Pick(static_cast<int>(open_.size()))); }
  uint64_t NewName(uint64_t session) { return *RequestName{SessionId(session), ++request_, 0, false}.Number(); }
  std::optional<uint64_t> AnyArray(uint64_t session) {
    const std::set<uint64_t>& arrays = arrays_[session];
    if (arrays.empty()) return std::nullopt;
    return *std::next(arrays.begin(), Pick(static_cast<int>(arrays.size())));
  }

  void Configure() {
    v1::HostConfig config;
    config.set_spill(true);
    std::map<std::string, v1::HostConfig::Account> accounts;
    for (uint64_t session : open_) {
      const std::string user = UserOf(session);
      if (quota_of_[user] < 0) continue;
      accounts[user].set_user(user);
      accounts[user].add_sessions(session);
      accounts[user].set_device_bytes(quota_of_[user]);
      accounts[user].set_host_bytes(quota_of_[user]);
    }
    for (const auto& [user, account] : accounts) *config.add_accounts() = account;
    w_.Configure(config);
  }

  void Step(uint64_t session) {
    const int kind = Pick(20);
    if (kind < 6) return Put(session);
    if (kind < 13) return Execute(session);
    if (kind < 16) return Release(session);
    if (kind < 17) return Fetch(session);
    if (kind < 18) return Share(session);
    if (kind < 19) return Pick(2) == 0 ? Configure() : Mix(session);
    if (Pick(2) == 0) Kill(session);
  }

  void Put(uint64_t session) {
    const uint64_t array = NewName(session), op = NewName(session);
    const std::vector<float> values = {1, 2, 3, 4};
    arrays_[session].insert(array);
    if (Pick(2) == 0) return w_.Put(op, array, values, {0, 1}, session);
    w_.PutLater(op, array, 4, {0, 1}, session);
    if (Pick(4) > 0) late_.push_back([this, op, values, session] { w_.SendChunks(op, values, 8, session); });
  }
  void Execute(uint64_t session) {
    const size_t i = static_cast<size_t>(Pick(std::size(kCharged)));
    std::vector<uint64_t> arguments, results;
    for (int k = 0; k < kArguments[i]; ++k) {
      const std::optional<uint64_t> array = AnyArray(session);
      if (!array.has_value()) return;
      arguments.push_back(*array);
    }
    for (int k = 0; k < kResults[i]; ++k) results.push_back(NewName(session));
    w_.Execute(NewName(session), Program(session, i), arguments, results, session);
    if (i == 1) arrays_[session].erase(arguments[1]);
    arrays_[session].insert(results.begin(), results.end());
  }
  void Release(uint64_t session) {
    const std::optional<uint64_t> array = AnyArray(session);
    if (!array.has_value()) return;
    w_.Release(*array);
    arrays_[session].erase(*array);
  }
  void Fetch(uint64_t session) {
    if (const std::optional<uint64_t> array = AnyArray(session)) w_.Fetch(NewName(session), *array, Pick(2));
  }
  // Gives an array of the session a second name.
  void Share(uint64_t session) {
    const std::optional<uint64_t> array = AnyArray(session);
    if (!array.has_value()) return;
    v1::Command command;
    auto* alias = command.mutable_alias();
    const uint64_t copy = NewName(session);
    alias->set_op(NewName(session));
    alias->set_session(session);
    for (int shard : {0, 1}) {
      auto* item = alias->add_items();
      item->set_array(copy);
      item->set_shard(shard);
      item->set_source_array(*array);
      item->set_source_shard(shard);
    }
    w_.Do(command);
    arrays_[session].insert(copy);
  }
  // Makes an array each of whose shards has a half of both shards of another: it is put together in host memory.
  void Mix(uint64_t session) {
    const std::optional<uint64_t> source = AnyArray(session);
    if (!source.has_value()) return;
    v1::Command command;
    auto* move = command.mutable_move();
    const uint64_t made = NewName(session);
    move->set_op(NewName(session));
    move->set_session(session);
    for (int shard : {0, 1}) {
      auto* receive = move->add_receives();
      receive->set_array(made);
      receive->set_shard(shard);
      receive->set_local_device(shard);
      receive->set_dtype(11);
      receive->add_dims(4);
      for (int half : {0, 1}) {
        auto* piece = receive->add_pieces();
        piece->mutable_to()->add_start(2 * half);
        piece->mutable_to()->add_size(2);
        piece->set_source_array(*source);
        piece->set_source_shard(half);
        piece->mutable_from()->add_start(2 * half);
        piece->mutable_from()->add_size(2);
        piece->set_from_host(1);
      }
    }
    w_.Do(command);
    arrays_[session].insert(made);
  }
  void Kill(uint64_t session) {
    w_.ReleaseOwner(session);
    open_.erase(session);
    if (Pick(2) == 0) Configure();
  }

  void SendLate() {
    const auto one = std::next(late_.begin(), Pick(static_cast<int>(late_.size())));
    const std::function<void()> send = std::move(*one);
    late_.erase(one);
    send();
  }
  void RunSomething() {
    switch (Pick(6)) {
      case 0:
      case 1:
      case 2:
        w_.executor.RunOne();
        return;
      case 3:
      case 4:
        w_.device_executor.RunOne();
        return;
      default:
        if (Pick(4) == 0) return w_.runtime.ReleaseHeld();
        if (!late_.empty()) SendLate();
    }
  }

  void CheckQuotas() {
    const v1::HealthReport health = w_.worker->Health();
    for (const auto& use : health.users()) {
      if (quota_of_[use.user()] < 0) continue;
      ASSERT_LE(use.device_bytes(), quota_of_[use.user()]) << use.user();
    }
  }

  std::mt19937 random_;
  WorkerHarness w_;
  std::map<std::string, int64_t> quota_of_;  // -1: none
  std::set<uint64_t> open_;
  std::map<uint64_t, std::set<uint64_t>> arrays_;  // of each session
  uint64_t request_ = 0;
  std::vector<std::function<void()>> late_;
};

TEST(Charges, GoBackToZeroAfterRandomProgramsWithKills) {
  const char* chosen = std::getenv("PW_TEST_SEED");
  const uint32_t first = chosen != nullptr ? static_cast<uint32_t>(std::atoi(chosen)) : 1;
  const uint32_t runs = chosen != nullptr ? 1 : 10000;
  for (uint32_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE("PW_TEST_SEED=" + std::to_string(seed));
    RandomCharges(seed).Run(20);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace pw::worker
