// Two controllers carry out the same requests of two sessions. The sessions' requests come interleaved in different ways, and the hosts answer
// in different orders. Each host is told to make the same things, under the same names.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/controller/testing/names_sent.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/session/program_store.h"
#include "pathways/session/served_session.h"
#include "pathways/session/wire.h"

namespace pw::session {
namespace {

using controller::NamesSent;
using controller::TestCluster;
using ::pathways::v1::SessionRequest;

constexpr int kThreeHosts = 3, kOnEachHost = 2, kDevicesOfAll = kThreeHosts * kOnEachHost;
constexpr Handle kCopyOn = 1000, kFailOn = 2000, kEverywhere = 3000;  // executables; the first two: one for each device
constexpr int kCompiles = 2 * kDevicesOfAll + 1;

// The requests of one session: first kCompiles compilations, then random work with arrays of one device, and of rows on all devices.
class NamedRequests {
 public:
  struct Request {
    SessionRequest message;
    std::string payload;
  };

  NamedRequests(uint32_t seed, bool fails) : random_(seed), fails_(fails) {
    for (int d = 0; d < kDevicesOfAll; ++d) {
      Compile(kCopyOn + static_cast<Handle>(d), TestCluster::Toy("copy", 1, 1, 1), {d});
      Compile(kFailOn + static_cast<Handle>(d), TestCluster::Toy("fail", 1, 1, 1), {d});
    }
    std::vector<int> all;
    for (int d = 0; d < kDevicesOfAll; ++d) all.push_back(d);
    Compile(kEverywhere, TestCluster::Toy("copy", 2, 2, kDevicesOfAll), all);
    for (int i = 0; i < 40; ++i) AddRequest();
  }
  const std::vector<Request>& requests() const { return requests_; }

 private:
  struct Single {
    Handle handle;
    int device;
  };

  int Below(size_t n) { return static_cast<int>(random_() % n); }
  SessionRequest* Add(std::string payload = "") {
    requests_.push_back({{}, std::move(payload)});
    return &requests_.back().message;
  }
  void Compile(Handle handle, const ::pathways::v1::Compiled& toy, const std::vector<int>& devices) {
    auto* compile = Add(toy.SerializeAsString())->mutable_compile();
    compile->set_executable(handle);
    compile->set_format("mlir");
    compile->set_options("\x10\x01");  // parameter_is_tupled_arguments
    compile->set_num_replicas(1);
    compile->set_num_partitions(static_cast<int>(devices.size()));
    for (int device : devices) compile->add_devices(device);
  }
  // Half of the buffers come after the request that names them.
  void Make(const buffers::ArraySpec& spec) {
    const Handle result = next_++;
    const int tiles = static_cast<int>(spec.sharding.num_tiles());
    const bool before = Below(2) == 0;
    if (before) SendBuffers(result, tiles);
    auto* make = Add()->mutable_make_array();
    make->set_result(result);
    ToProto(spec, make->mutable_spec());
    for (int t = 0; t < tiles; ++t) {
      auto* source = make->add_sources();
      source->set_buffer(BufferOf(result, t));
      source->set_dtype(static_cast<int>(spec.dtype));
      source->add_dims(1);
      source->add_dims(4);
      source->add_shards(t);
    }
    if (!before) SendBuffers(result, tiles);
  }
  static Handle BufferOf(Handle array, int tile) { return 1'000'000 + 10 * array + static_cast<Handle>(tile); }
  void SendBuffers(Handle array, int tiles) {
    for (int t = 0; t < tiles; ++t) Add("abcd")->mutable_host_buffer()->set_buffer(BufferOf(array, t));
  }
  static buffers::ArraySpec On(int device) { return TestCluster::Single(device, {1, 4}); }
  static buffers::ArraySpec Rows() { return TestCluster::Rows(0, kDevicesOfAll, {kDevicesOfAll, 4}); }

  void MakeSingle() {
    const int device = Below(kDevicesOfAll);
    singles_.push_back({next_, device});
    Make(On(device));
  }
  void MakeRows() {
    rows_.push_back(next_);
    Make(Rows());
  }
  void MakeError() {
    singles_.push_back({next_, Below(kDevicesOfAll)});
    auto* error = Add()->mutable_make_error_array();
    error->set_result(next_++);
    ToProto(On(singles_.back().device), error->mutable_spec());
    ToProto(absl::DataLossError("lost"), error->mutable_error());
  }
  void Call(Handle executable, const std::vector<Handle>& args, const std::vector<Handle>& results) {
    auto* execute = Add()->mutable_execute();
    execute->set_executable(executable);
    for (Handle arg : args) execute->add_args(arg);
    for (Handle result : results) execute->add_results(result);
    if (Below(4) == 0) execute->set_status(9'000'000 + results[0]);
  }
  void CallSingle() {
    const Single arg = singles_[Below(singles_.size())];
    const bool fails = fails_ && Below(4) == 0;
    singles_.push_back({next_++, arg.device});
    Call((fails ? kFailOn : kCopyOn) + static_cast<Handle>(arg.device), {arg.handle}, {singles_.back().handle});
  }
  void CallEverywhere() {
    const Handle x = rows_[Below(rows_.size())], y = rows_[Below(rows_.size())];
    rows_.insert(rows_.end(), {next_, next_ + 1});
    Call(kEverywhere, {x, y}, {next_, next_ + 1});
    next_ += 2;
  }
  // Copies several arrays to one device. Some may be errors, or there already.
  void Copy() {
    auto* copy = Add()->mutable_copy();
    copy->set_semantics(Below(2) == 0 ? ::pathways::v1::ALWAYS_COPY : ::pathways::v1::REUSE_INPUT);
    const int device = Below(kDevicesOfAll);
    copy->add_devices(device);
    for (int i = 0, n = 1 + Below(4); i < n; ++i) {
      copy->add_arrays(singles_[Below(singles_.size())].handle);
      copy->add_results(next_);
      singles_.push_back({next_++, device});
    }
  }
  void Reshard() {
    auto* reshard = Add()->mutable_reshard();
    reshard->set_semantics(::pathways::v1::REUSE_INPUT);
    for (int i = 0, n = 1 + Below(3); i < n; ++i) {
      reshard->add_arrays(rows_[Below(rows_.size())]);
      reshard->add_results(next_++);
      ToProto(TestCluster::Single(Below(kDevicesOfAll), {kDevicesOfAll, 4}), reshard->add_specs());
    }
  }
  void Disassemble() {
    auto* apart = Add()->mutable_disassemble();
    apart->set_semantics(::pathways::v1::REUSE_INPUT);
    apart->add_arrays(rows_[Below(rows_.size())]);
    for (int d = 0; d < kDevicesOfAll; ++d) {
      apart->add_results(next_);
      singles_.push_back({next_++, d});
    }
  }
  void Assemble() {
    auto* whole = Add()->mutable_assemble();
    whole->set_semantics(::pathways::v1::REUSE_INPUT);
    for (int d = 0; d < kDevicesOfAll; ++d) {
      std::vector<Handle> there;
      for (const Single& single : singles_) {
        if (single.device == d) there.push_back(single.handle);
      }
      whole->add_arrays(there.empty() ? singles_[0].handle : there[Below(there.size())]);  // without one, the request fails
    }
    whole->add_results(next_);
    rows_.push_back(next_++);
    ToProto(Rows(), whole->add_specs());
  }
  void Bitcast() {
    auto* bitcast = Add()->mutable_bitcast();
    bitcast->set_semantics(::pathways::v1::REUSE_INPUT);
    for (int i = 0, n = 1 + Below(3); i < n; ++i) {
      const Single from = singles_[Below(singles_.size())];
      bitcast->add_arrays(from.handle);
      bitcast->add_results(next_++);
      ToProto(TestCluster::Single(from.device, {1, 4}, buffers::DType::kS8), bitcast->add_specs());
    }
  }
  void Read() { Add()->mutable_fetch()->set_array(singles_[Below(singles_.size())].handle); }
  void Save() {
    auto* save = Add()->mutable_save();
    save->set_location("/somewhere");
    for (int i = 0; i < 2; ++i) {
      auto* array = save->add_arrays();
      array->set_name(absl::StrCat("a", i));
      array->set_array(rows_[Below(rows_.size())]);
    }
  }
  void Load() {
    auto* load = Add()->mutable_load();
    load->set_location("/somewhere");
    for (int i = 0; i < 2; ++i) {
      auto* array = load->add_arrays();
      array->set_name(absl::StrCat("a", i));
      array->set_result(next_);
      ToProto(Rows(), array->mutable_spec());
      rows_.push_back(next_++);
    }
  }
  void Drop() {
    const size_t which = static_cast<size_t>(Below(singles_.size()));
    Add()->mutable_destruct()->add_handles(singles_[which].handle);
    singles_.erase(singles_.begin() + static_cast<ptrdiff_t>(which));
  }
  void AddRequest() {
    if (singles_.size() < 3) return MakeSingle();
    if (rows_.size() < 2) return MakeRows();
    static constexpr void (NamedRequests::* kKinds[])() = {
        &NamedRequests::MakeSingle, &NamedRequests::MakeRows,       &NamedRequests::MakeError, &NamedRequests::CallSingle,
        &NamedRequests::CallSingle, &NamedRequests::CallEverywhere, &NamedRequests::Copy,      &NamedRequests::Copy,
        &NamedRequests::Reshard,    &NamedRequests::Disassemble,    &NamedRequests::Assemble,  &NamedRequests::Bitcast,
        &NamedRequests::Read,       &NamedRequests::Save,           &NamedRequests::Load,      &NamedRequests::Drop};
    (this->*kKinds[Below(std::size(kKinds))])();
  }

  std::mt19937 random_;
  const bool fails_;
  std::vector<Request> requests_;
  Handle next_ = 1;
  std::vector<Single> singles_;
  std::vector<Handle> rows_;
};

// One controller with its hosts and two sessions.
class NamedWorld : public TestCluster {
 public:
  explicit NamedWorld(std::vector<const NamedRequests*> scripts) : TestCluster(0, 0, Formed()), scripts_(std::move(scripts)) {
    for (int h = 0; h < kThreeHosts; ++h) {
      controller::FakeWorker::Options options{absl::StrCat("w", h), "i", kOnEachHost};
      options.process_address = absl::StrCat("process of w", h);
      Add(std::move(options));
    }
    for (size_t s = 0; s < scripts_.size(); ++s) {
      Open();
      ServedSession::Owner owner;
      owner.on_unsent = [] {};
      owner.on_resumed = [] {};
      owner.on_broken = [](const absl::Status& status) { ADD_FAILURE() << status; };
      served_.push_back(std::make_shared<ServedSession>(cluster.get(), &programs_, session,
                                                        ServedSession::Client{{}, true, false}, std::move(owner)));
      done_.push_back(0);
      Take(s, kCompiles);
    }
    session = nullptr;
    Run();
  }
  ~NamedWorld() {
    served_.clear();
    Run();
  }

  // Carries out everything, in an order that depends on `seed`.
  void CarryOut(uint32_t seed) {
    std::mt19937 random(seed);
    for (auto& worker : workers) worker->hold_done = true;
    while (Left(0) + Left(1) > 0) {
      const size_t s = Left(1) == 0 ? 0 : Left(0) == 0 ? 1 : random() % 2;
      Take(s, std::min<size_t>(Left(s), 1 + random() % 4));
      if (random() % 2 == 0) Run();
      if (random() % 3 == 0) workers[random() % kThreeHosts]->ReleaseDone();
    }
    for (int turn = 0; turn < 20; ++turn) {
      Run();
      workers[random() % kThreeHosts]->ReleaseDone();
    }
    for (int turn = 0; turn < 5; ++turn) {
      for (auto& worker : workers) worker->ReleaseDone();
      Run();
    }
    EXPECT_EQ(cluster->fabric().ops().size(), 0u);
  }
  NamesSent::Commands Sent() const {
    NamesSent names;
    for (int h = 0; h < kThreeHosts; ++h) {
      for (const auto& command : workers[h]->log) {
        if (!command.has_compile()) names.Add(h, command);
      }
    }
    return names.commands();
  }

 private:
  static controller::ClusterOptions Formed() {
    controller::ClusterOptions options;
    options.expect_hosts = kThreeHosts;
    return options;
  }
  size_t Left(size_t s) const { return scripts_[s]->requests().size() - done_[s]; }
  void Take(size_t s, size_t count) {
    google::protobuf::RepeatedPtrField<SessionRequest> requests;
    std::vector<Bytes> payloads;
    for (size_t i = done_[s]; i < done_[s] + count; ++i) {
      *requests.Add() = scripts_[s]->requests()[i].message;
      payloads.push_back(Bytes::Copy(scripts_[s]->requests()[i].payload));
    }
    const absl::Status status = served_[s]->Take(done_[s] + 1, std::move(requests), std::move(payloads));
    EXPECT_TRUE(status.ok()) << status;
    done_[s] += count;
  }

  const std::vector<const NamedRequests*> scripts_;
  ProgramStore programs_;
  std::vector<std::shared_ptr<ServedSession>> served_;
  std::vector<size_t> done_;  // requests of each session that have been carried out
};

NamesSent::Commands CarriedOut(const std::vector<NamedRequests>& scripts, uint32_t order) {
  NamedWorld world({&scripts[0], &scripts[1]});
  world.CarryOut(order);
  return world.Sent();
}

std::vector<NamedRequests> RequestsOf(uint32_t seed, bool fails) {
  std::vector<NamedRequests> scripts;
  for (uint32_t s = 0; s < 2; ++s) scripts.emplace_back(2 * seed + s, fails);
  return scripts;
}

TEST(NamesTest, TwoControllersGiveTheSameNames) {
  size_t commands = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    const std::vector<NamedRequests> scripts = RequestsOf(seed, false);
    const NamesSent::Commands first = CarriedOut(scripts, 1);
    commands += first.size();
    for (uint32_t order = 2; order <= 3; ++order) ASSERT_EQ(CarriedOut(scripts, order), first) << "seed " << seed;
  }
  EXPECT_GT(commands, 1000u);
}

TEST(NamesTest, EachIsOfTheRequestThatMadeIt) {
  const std::vector<NamedRequests> scripts = RequestsOf(1, false);
  std::map<uint64_t, std::set<uint64_t>> requests;  // by session
  for (const auto& [key, commands] : CarriedOut(scripts, 1)) {
    for (const auto& [text, name] : commands) {
      EXPECT_FALSE(name.own) << text;
      EXPECT_GT(name.request, static_cast<uint64_t>(kCompiles)) << text;
      requests[name.session.v].insert(name.request);
    }
  }
  ASSERT_EQ(requests.size(), 2u);
  for (const auto& [session, numbers] : requests) {
    EXPECT_GT(numbers.size(), 10u);
    EXPECT_LE(*numbers.rbegin(), scripts[session - 1].requests().size());
  }
}

// Whether an array is an error when a request comes depends on the time. What is made nevertheless has the same names.
TEST(NamesTest, FailuresChangeNoNames) {
  size_t common = 0, all = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    const std::vector<NamedRequests> scripts = RequestsOf(seed, true);
    const NamesSent::Commands first = CarriedOut(scripts, 1), second = CarriedOut(scripts, 2);
    for (const auto& [key, commands] : first) {
      ++all;
      const auto other = second.find(key);
      if (other == second.end()) continue;
      ++common;
      ASSERT_EQ(other->second, commands) << "seed " << seed;
    }
  }
  EXPECT_GT(common, all / 2);
}

// A number that has no room in names is refused, and the session goes on for its client to read why.
TEST(NamesTest, ARequestWithTooLargeANumberIsRefused) {
  TestCluster t;
  Session& session = t.Open();
  session.BeginRequest(uint64_t{1} << 60);
  EXPECT_EQ(t.Put(1, TestCluster::Single(0, {4}), "abcd").code(), absl::StatusCode::kResourceExhausted);
  session.EndRequest();
  EXPECT_EQ(t.Ready({1}).code(), absl::StatusCode::kResourceExhausted);
  session.BeginRequest(1);
  EXPECT_TRUE(t.Put(2, TestCluster::Single(0, {4}), "abcd").ok());
  session.EndRequest();
  EXPECT_TRUE(t.Ready({2}).ok());
}

}  // namespace
}  // namespace pw::session
