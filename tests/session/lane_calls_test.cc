// Programs call functions of their client's process, on lanes: no byte of a call passes through the controller.
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/session/lane_cluster.h"

namespace pw::session {
namespace {

using controller::TestCluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers calls when the test tells it to: with the first operand, each element times ten.
struct Functions final : HostCallHandler {
  struct Call {
    HostCall call;
    ResultCallback<std::vector<Bytes>> done;
  };
  void OnHostCall(HostCall call, ResultCallback<std::vector<Bytes>> done) override {
    numbers.push_back(call.callback);
    calls.push_back({std::move(call), std::move(done)});
  }
  Call Next() {
    Call next = std::move(calls.front());
    calls.erase(calls.begin());
    return next;
  }
  void Answer() {
    Call next = Next();
    const Bytes& operand = next.call.data[0];
    std::vector<float> values(operand.size() / sizeof(float));
    std::memcpy(values.data(), operand.data(), operand.size());
    for (float& value : values) value *= 10;
    std::move(next.done)(std::vector<Bytes>{Bytes::Copy({reinterpret_cast<const char*>(values.data()), operand.size()})});
  }
  std::vector<Call> calls;
  std::vector<uint64_t> numbers;  // of all functions that were called, in order
};

// The client has one array for each device, of the device's number and the numbers behind it.
class CallCluster : public LaneCluster {
 public:
  explicit CallCluster(int num_hosts = 2, int64_t elements = 4) : LaneCluster(num_hosts, 1), elements_(elements) {
    EXPECT_TRUE(ConnectWithLanes().ok());
    remote->SetHostCalls(functions);
    for (int d = 0; d < num_hosts; ++d) EXPECT_TRUE(Put(Arg(d), Spec(d), Text(Values(d, 1))).ok());
    Run();
  }

  // A program on one device that returns the result of function `callback` for its argument.
  absl::StatusOr<Handle> CompileCall(int device, uint64_t callback) {
    return CompileText(device, absl::StrCat("pathways_host_callback=", callback));
  }
  absl::StatusOr<Handle> CompileText(int device, const std::string& text) {
    CompileRequest request;
    request.format = "sim";
    request.program = Bytes::FromString(absl::StrCat("args=1 outputs=1 dims=", elements_, " ", text));
    request.devices = {DeviceId(device)};
    auto info =
        Await<std::shared_ptr<const ExecutableInfo>>([&](auto done) { session->Compile(std::move(request), std::move(done)); });
    if (!info.ok()) return info.status();
    return (*info)->handle;
  }
  void Begin(Handle program, int device, Handle result) {
    EXPECT_TRUE(Execute(program, {Arg(device)}, {result}).ok());
    Run();
  }
  std::vector<float> Values(int device, float factor) const {
    std::vector<float> values(static_cast<size_t>(elements_));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(device + static_cast<int>(i)) * factor;
    return values;
  }
  static std::string Text(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  buffers::ArraySpec Spec(int device) const { return Single(device, {elements_}, buffers::DType::kF32); }
  static Handle Arg(int device) { return 1 + static_cast<Handle>(device); }
  // Lets clients connect again, and runs all later events.
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      Run();
      timers.Advance(absl::Milliseconds(100));
    }
    Run();
  }

  const std::shared_ptr<Functions> functions = std::make_shared<Functions>();

 private:
  const int64_t elements_;
};

TEST(LaneCallsTest, CallsComeFromTheirHostsAndTheControllerSeesNoByte) {
  CallCluster t(3, 2);  // the arguments are so small that they come with their requests
  const int64_t before = t.BytesThroughController();
  std::vector<Handle> programs;
  for (int d : {1, 2}) programs.push_back(*t.CompileCall(d, 70 + static_cast<uint64_t>(d)));
  t.Begin(programs[0], 1, 101);
  t.Begin(programs[1], 2, 102);
  ASSERT_THAT(t.functions->numbers, ElementsAre(71, 72));
  const HostCall& call = t.functions->calls[0].call;
  EXPECT_EQ(call.data[0].view(), CallCluster::Text(t.Values(1, 1)));
  EXPECT_EQ(call.operands[0].dtype, buffers::DType::kF32);
  EXPECT_THAT(call.operands[0].dims, ElementsAre(2));
  t.functions->Answer();
  t.functions->Answer();
  EXPECT_TRUE(t.Ready({101, 102}).ok());
  EXPECT_EQ(t.BytesThroughController(), before);
  EXPECT_EQ(t.remote->lanes().num_calls(), 0) << "nothing is kept of calls that have ended";
  EXPECT_EQ(t.hosts[0]->lanes_accepted, 0) << "a host that makes no call gets no lane";
  EXPECT_EQ(t.hosts[1]->lanes_accepted, 1);
  EXPECT_EQ(*t.Fetch(101), CallCluster::Text(t.Values(1, 10)));
  EXPECT_EQ(*t.Fetch(102), CallCluster::Text(t.Values(2, 10)));
}

TEST(LaneCallsTest, ManyBytesGoBothWays) {
  CallCluster t(1, 1 << 20);
  const Handle program = *t.CompileCall(0, 7);
  t.Begin(program, 0, 100);
  ASSERT_EQ(t.functions->calls.size(), 1u);
  EXPECT_TRUE(t.functions->calls[0].call.data[0].view() == CallCluster::Text(t.Values(0, 1)));
  t.functions->Answer();
  EXPECT_TRUE(*t.Fetch(100) == CallCluster::Text(t.Values(0, 10)));
  EXPECT_EQ(t.BytesThroughController(), 0);
}

TEST(LaneCallsTest, ErrorsAreValues) {
  CallCluster t(1);
  const Handle program = *t.CompileCall(0, 7);
  t.Begin(program, 0, 100);
  const std::string long_text = absl::StrCat("ValueError: no ", std::string(2 << 20, 'x'));
  std::move(t.functions->Next().done)(absl::InternalError(long_text));
  const absl::Status error = t.Ready({100});
  EXPECT_EQ(error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(error.message(), HasSubstr("ValueError: no xxx"));
  EXPECT_THAT(error.message(), HasSubstr("left out"));
  Handle result = 101;
  for (const std::vector<Bytes>& wrong : {std::vector<Bytes>{}, std::vector<Bytes>{Bytes::Copy("short")}}) {
    t.Begin(program, 0, ++result);
    std::move(t.functions->Next().done)(wrong);
    EXPECT_EQ(t.Ready({result}).code(), absl::StatusCode::kInvalidArgument);
  }
  t.Begin(program, 0, ++result);
  t.functions->Answer();
  EXPECT_TRUE(t.Ready({result}).ok()) << "the lane goes on";
}

TEST(LaneCallsTest, AClientWithoutFunctionsSaysSo) {
  CallCluster t(1);
  const Handle program = *t.CompileCall(0, 7);
  t.remote->SetHostCalls(nullptr);
  t.Begin(program, 0, 100);
  const absl::Status error = t.Ready({100});
  EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("pathways package"));
}

TEST(LaneCallsTest, ACallRunsOnceHoweverOftenTheLaneBreaks) {
  // The lane breaks after each number of tasks, so in each of the call's phases.
  for (const int64_t elements : {int64_t{4}, int64_t{1} << 19}) {
    for (int tasks = 0; tasks < 60; ++tasks) {
      CallCluster t(1, elements);
      const Handle program = *t.CompileCall(0, 7);
      EXPECT_TRUE(t.Execute(program, {CallCluster::Arg(0)}, {100}).ok());
      for (int i = 0; i < tasks; ++i) t.executor.RunOne();
      t.remote->lanes().Break(HostId(0));
      t.Settle();
      ASSERT_EQ(t.functions->calls.size(), 1u) << tasks;
      t.functions->Answer();
      for (int i = 0; i < tasks; ++i) t.executor.RunOne();
      t.remote->lanes().Break(HostId(0));
      t.Settle();
      ASSERT_TRUE(*t.Fetch(100) == CallCluster::Text(t.Values(0, 10))) << tasks;
      ASSERT_THAT(t.functions->numbers, ElementsAre(7)) << tasks;
      ASSERT_EQ(t.remote->lanes().num_calls(), 0) << tasks;
    }
  }
}

TEST(LaneCallsTest, CallsThatDependOnEachOtherKeepTheirOrderWhileLanesBreak) {
  CallCluster t(2);
  std::mt19937 random(7);
  constexpr int kCalls = 40;
  std::vector<uint64_t> expected;
  for (int i = 0; i < kCalls; ++i) {
    const uint64_t number = 100 + static_cast<uint64_t>(i);
    expected.push_back(number);
    const Handle program = *t.CompileCall(i % 2, number);
    // The next program's argument is the result of this one's function, on the other host.
    const Handle arg = i == 0 ? CallCluster::Arg(0) : 1000 + static_cast<Handle>(i);
    ASSERT_TRUE(t.Execute(program, {arg}, {2000 + static_cast<Handle>(i)}).ok());
    const std::vector<DeviceId> other = {DeviceId((i + 1) % 2)};
    const Handle copy = 1001 + static_cast<Handle>(i), result = 2000 + static_cast<Handle>(i);
    ASSERT_TRUE(t.session->Copy({copy}, {result}, other, std::nullopt, CopySemantics::kAlwaysCopy).ok());
  }
  for (int turn = 0; turn < 100 * kCalls && t.functions->numbers.size() < kCalls; ++turn) {
    for (int i = random() % 30; i > 0; --i) t.executor.RunOne();
    if (random() % 3 == 0) t.remote->lanes().Break(HostId(random() % 2));
    t.timers.Advance(absl::Milliseconds(60));
    if (t.functions->calls.empty()) continue;
    std::move(t.functions->Next().done)(std::vector<Bytes>{Bytes::Copy(CallCluster::Text({1, 2, 3, 4}))});
  }
  t.Settle();
  EXPECT_EQ(t.functions->numbers, expected);
  EXPECT_TRUE(t.Ready({2000 + kCalls - 1}).ok());
}

TEST(LaneCallsTest, CallsEndWithTheSession) {
  CallCluster t(1);
  const Handle program = *t.CompileCall(0, 7);
  t.Begin(program, 0, 100);
  ASSERT_EQ(t.functions->calls.size(), 1u);
  t.session = nullptr;
  t.remote = nullptr;
  EXPECT_EQ(t.Arrays(), 0) << "the program has ended, and with it all that the session had";
  EXPECT_EQ(t.hosts[0]->live_buffers(), 0);
  std::move(t.functions->Next().done)(std::vector<Bytes>{});  // too late, without harm
  t.Run();
}

TEST(LaneCallsTest, CallsEndWhenTheClientCannotConnect) {
  CallCluster t(1);
  const Handle program = *t.CompileCall(0, 7);
  t.Run();
  t.hosts[0]->StopListening();
  t.remote->lanes().Break(HostId(0));
  t.Begin(program, 0, 100);
  for (int i = 0; i < 40; ++i) {
    t.timers.Advance(absl::Seconds(1));
    t.Run();
  }
  const absl::Status error = t.Ready({100});
  EXPECT_EQ(error.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("cannot connect"));
  EXPECT_TRUE(t.functions->calls.empty());
}

TEST(LaneCallsTest, ACallOfAHostThatIsLostEndsWithIt) {
  CallCluster t(2);
  const Handle program = *t.CompileCall(1, 7);
  t.Begin(program, 1, 100);
  ASSERT_EQ(t.functions->calls.size(), 1u);
  t.hosts[1]->Die();
  t.Run();
  EXPECT_FALSE(t.Ready({100}).ok());
  EXPECT_EQ(t.remote->lanes().num_calls(), 0);
  t.functions->Answer();  // no call waits for it
  t.Run();
}

// ---- calls of nodes of programs

class NodeCallCluster : public CallCluster {
 public:
  explicit NodeCallCluster(int64_t elements = 4) : CallCluster(2, elements) {}

  // A program of one node: function 9 of two arguments, on device 0 and on device 1, with two results, on device 1 and on device 0.
  Handle Load(int64_t elements) {
    ::pathways::v1::Program program;
    program.set_name("calls");
    for (int d : {0, 1}) {
      program.add_shardings()->add_devices(d);
    }
    auto dims = [elements](auto* type) {
      type->set_dtype(11);
      type->add_dims(elements);
    };
    for (uint32_t s : {0, 1}) {
      auto* arg = program.add_nodes()->mutable_arg();
      dims(arg);
      arg->set_sharding(s);
    }
    auto* call = program.add_nodes()->mutable_host_call();
    call->set_callback(9);
    call->set_function("tenfold");
    for (uint32_t s : {0, 1}) {
      call->add_inputs(s);
      auto* output = call->add_outputs();
      dims(output);
      output->set_sharding(1 - s);
    }
    for (uint32_t value : {2, 3}) program.add_nodes()->mutable_result()->set_input(value);
    auto info = Await<std::shared_ptr<const ExecutableInfo>>(
        [&](auto done) { session->CompileProgram(Bytes::FromString(program.SerializeAsString()), std::move(done)); });
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? (*info)->handle : 0;
  }
  // Answers with both operands, each element times ten.
  void AnswerBoth() {
    Functions::Call next = functions->Next();
    std::vector<Bytes> results;
    for (const Bytes& operand : next.call.data) {
      std::vector<float> values(operand.size() / sizeof(float));
      std::memcpy(values.data(), operand.data(), operand.size());
      for (float& value : values) value *= 10;
      results.push_back(Bytes::Copy(Text(values)));
    }
    std::move(next.done)(std::move(results));
    Run();
  }
};

TEST(NodeCallsTest, OperandsComeFromTheirHostsAndResultsGoToTheirs) {
  for (const int64_t elements : {4, 1 << 20}) {
    NodeCallCluster t(elements);
    const Handle program = t.Load(elements);
    ASSERT_TRUE(t.Execute(program, {CallCluster::Arg(0), CallCluster::Arg(1)}, {100, 101}).ok());
    t.Run();
    ASSERT_EQ(t.functions->calls.size(), 1u);
    EXPECT_TRUE(t.functions->calls[0].call.data[1].view() == CallCluster::Text(t.Values(1, 1)));
    t.AnswerBoth();
    EXPECT_TRUE(*t.Fetch(100) == CallCluster::Text(t.Values(0, 10)));
    EXPECT_TRUE(*t.Fetch(101) == CallCluster::Text(t.Values(1, 10)));
    EXPECT_EQ(t.BytesThroughController(), 0);
    EXPECT_EQ(t.remote->lanes().buffers().size(), 0u) << "the results have gone to their hosts";
    ASSERT_TRUE(t.session->Destruct({CallCluster::Arg(0), CallCluster::Arg(1), 100, 101}).ok());
    EXPECT_EQ(t.Arrays(), 0);
  }
}

TEST(NodeCallsTest, AnArgumentThatIsDonatedOrDeletedMeanwhileIsReadUnchanged) {
  NodeCallCluster t;
  const Handle program = t.Load(4), donating = *t.CompileText(0, "donate=0");
  ASSERT_TRUE(t.Execute(program, {CallCluster::Arg(0), CallCluster::Arg(1)}, {100, 101}).ok());
  ASSERT_TRUE(t.Execute(donating, {CallCluster::Arg(0)}, {110}).ok());
  ASSERT_TRUE(t.session->Delete({CallCluster::Arg(1)}).ok());
  t.Run();
  ASSERT_EQ(t.functions->calls.size(), 1u);
  t.AnswerBoth();
  EXPECT_EQ(*t.Fetch(100), CallCluster::Text(t.Values(0, 10)));
  EXPECT_EQ(*t.Fetch(101), CallCluster::Text(t.Values(1, 10)));
  EXPECT_TRUE(t.Ready({110}).ok());
}

TEST(NodeCallsTest, WhatFailsPoisonsTheResultsAndNothingElse) {
  NodeCallCluster t;
  const Handle program = t.Load(4);
  const auto begin = [&](Handle first) {
    ASSERT_TRUE(t.Execute(program, {CallCluster::Arg(0), CallCluster::Arg(1)}, {first, first + 1}).ok());
    t.Run();
  };
  begin(100);
  std::move(t.functions->Next().done)(absl::InternalError("ValueError: no"));
  EXPECT_THAT(t.Ready({100}).message(), HasSubstr("ValueError: no"));
  begin(110);
  std::move(t.functions->Next().done)(std::vector<Bytes>{Bytes::Copy("abcd"), Bytes::Copy("abcd")});
  EXPECT_THAT(t.Ready({111}).message(), HasSubstr("4 bytes"));
  EXPECT_EQ(t.remote->lanes().buffers().size(), 0u) << "results that nobody takes are dropped";
  ASSERT_TRUE(t.session->MakeErrorArray(5, t.Spec(0), absl::DataLossError("it never was")).ok());
  ASSERT_TRUE(t.Execute(program, {5, CallCluster::Arg(1)}, {120, 121}).ok());
  EXPECT_THAT(t.Ready({120}).message(), HasSubstr("it never was"));
  EXPECT_TRUE(t.functions->calls.empty());
  begin(130);
  t.AnswerBoth();
  EXPECT_EQ(*t.Fetch(130), CallCluster::Text(t.Values(0, 10)));
}

TEST(NodeCallsTest, TheEndOfTheSessionEndsThem) {
  NodeCallCluster t;
  const Handle program = t.Load(4);
  ASSERT_TRUE(t.Execute(program, {CallCluster::Arg(0), CallCluster::Arg(1)}, {100, 101}).ok());
  t.Run();
  ASSERT_EQ(t.functions->calls.size(), 1u);
  t.session = nullptr;
  t.remote = nullptr;
  EXPECT_EQ(t.Arrays(), 0);
  std::move(t.functions->Next().done)(std::vector<Bytes>{});  // too late, without harm
  t.Run();
}

}  // namespace
}  // namespace pw::session
