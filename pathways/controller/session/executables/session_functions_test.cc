#include "pathways/controller/session/executables/session_functions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/controller/testing/test_cluster.h"
#include "pathways/program/op_sharding.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Info = std::shared_ptr<const ExecutableInfo>;

// Two hosts of two CPU devices each, in islands of their own. Python functions span them all the same.
struct PythonCluster {
  explicit PythonCluster(const std::string& kind = "cpu") : t(0, 0, Expecting(2)) {
    for (int h = 0; h < 2; ++h) t.Add({absl::StrCat("w", h), absl::StrCat("i", h), 2, "cpu", "1.13.0", 1, "", "", kind});
    t.Open();
  }
  static ClusterOptions Expecting(int hosts) {
    ClusterOptions options;
    options.expect_hosts = hosts;
    return options;
  }

  // A function of one argument and results of these types, all of them rows over all devices.
  absl::StatusOr<Info> Load(const std::string& toy, std::vector<buffers::DType> results = {buffers::DType::kU8}) {
    session::HostFunction function{"f", "", t.Devices(0, 4), {Rows()}, {}};
    ::pathways::v1::Compiled text = t.Toy(toy, 1, static_cast<int>(results.size()), 4);
    for (size_t k = 0; k < results.size(); ++k) {
      text.mutable_outputs(static_cast<int>(k))->set_dtype(static_cast<int>(results[k]));
      function.outputs.push_back(t.Rows(0, 4, {4, 4}, results[k]));
    }
    function.text = text.SerializeAsString();
    CompileRequest request;
    request.format = session::kHostFunctionFormat;
    request.program = Bytes::FromString(session::SerializeHostFunction(function));
    return t.Await<Info>([&](auto done) { t.session->Compile(request, std::move(done)); });
  }
  static buffers::ArraySpec Rows() { return TestCluster::Rows(0, 4, {4, 4}); }
  absl::Status Call(const Info& f, Handle arg, std::vector<Handle> results, uint64_t stream = 5) {
    ExecuteRequest request;
    request.executable = f->handle;
    request.args = {arg};
    request.results = std::move(results);
    request.stream = stream;
    return t.session->Execute(request).status();
  }

  TestCluster t;
};

// A program that calls the function on its argument: arg -> f -> result, if it `has_result`.
::pathways::v1::Program Calling(const std::string& toy, bool has_result) {
  ::pathways::v1::Program program;
  program.set_name("step");
  const buffers::ArraySpec rows = PythonCluster::Rows();
  auto* f = program.add_executables();
  auto* sharding = program.add_shardings();
  for (DeviceId device : rows.sharding.devices()) {
    f->add_devices(device.v);
    sharding->add_devices(device.v);
  }
  sharding->set_op_sharding(program::ShardingToOpSharding(rows.sharding).SerializeAsString());
  f->set_format(session::kHostFunctionFormat);
  f->set_module(TestCluster::Toy(toy, 1, has_result ? 1 : 0, 4).SerializeAsString());
  f->set_num_replicas(1);
  f->set_num_partitions(4);
  const auto type = [](auto* type) {
    type->set_dtype(static_cast<int>(buffers::DType::kU8));
    for (int d = 0; d < 2; ++d) type->add_dims(4);
  };
  type(program.add_nodes()->mutable_arg());
  auto* node = program.add_nodes();
  node->set_location("train.py:3 in step");
  node->mutable_host_compute()->set_function("f");
  node->mutable_host_compute()->add_inputs(0);
  type(node->mutable_host_compute()->add_takes());
  if (!has_result) return program;
  type(node->mutable_host_compute()->add_outputs());
  program.add_nodes()->mutable_result()->set_input(1);
  return program;
}

absl::StatusOr<Info> LoadProgram(TestCluster& t, const ::pathways::v1::Program& program) {
  return t.Await<Info>(
      [&](auto done) { t.session->CompileProgram(Bytes::FromString(program.SerializeAsString()), std::move(done)); });
}

const Command* Last(const FakeWorker& worker, Command::KindCase kind) {
  for (auto it = worker.log.rbegin(); it != worker.log.rend(); ++it) {
    if (it->kind_case() == kind) return &*it;
  }
  return nullptr;
}

TEST(SessionFunctionsTest, EachHostLoadsItOnceAndLearnsItsPlace) {
  PythonCluster c;
  const auto f = c.Load("copy");
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_EQ((*f)->name, "f");
  EXPECT_EQ((*f)->devices, c.t.Devices(0, 4));
  EXPECT_EQ((*f)->output_specs[0].dims, (buffers::Dims{4, 4}));
  for (uint32_t h = 0; h < 2; ++h) {
    EXPECT_EQ(c.t.workers[h]->Count(Command::kCompile), 1);
    const auto& compile = Last(*c.t.workers[h], Command::kCompile)->compile();
    EXPECT_THAT(compile.local_devices(), ElementsAre(0, 1, 0, 1));
    EXPECT_EQ(compile.function_hosts().self(), h);
    EXPECT_THAT(compile.function_hosts().hosts(1).devices(), ElementsAre(2, 3));
  }
  EXPECT_TRUE(c.t.session->DestructExecutable((*f)->handle).ok());
  c.t.Run();
  EXPECT_EQ(c.t.workers[0]->num_executables(), 0u);
}

TEST(SessionFunctionsTest, ACallIsOneCommandToEachHostAndNoGang) {
  PythonCluster c;
  const auto f = c.Load("copy");
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  ASSERT_TRUE(c.Call(*f, 1, {2}, 77).ok());
  EXPECT_EQ(*c.t.FetchRows(2), "0123456789abcdef");
  for (const auto& worker : c.t.workers) {
    EXPECT_EQ(worker->Count(Command::kExecute), 1);
    const auto& execute = Last(*worker, Command::kExecute)->execute();
    EXPECT_EQ(execute.stream(), 77u);
    EXPECT_EQ(execute.grant(), 0u);
    EXPECT_EQ(execute.gang(), 0u);
  }
}

TEST(SessionFunctionsTest, AComputationIsGrantedWhenTheFunctionThatFeedsItHasEnded) {
  PythonCluster c;
  const auto f = c.Load("copy");
  const auto jit = c.t.Compile(c.t.Toy("copy", 1, 1, 2), c.t.Devices(0, 2));
  ASSERT_TRUE(f.ok() && jit.ok());
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  c.t.Run();
  c.t.workers[0]->hold_done = c.t.workers[1]->hold_done = true;
  ASSERT_TRUE(c.Call(*f, 1, {2}).ok());
  ASSERT_TRUE(c.t.session->Disassemble(std::vector<Handle>{3, 4, 5, 6}, 2, CopySemantics::kReuseInput).ok());
  ASSERT_TRUE(c.t.session->Assemble(7, c.t.Rows(0, 2, {2, 4}), std::vector<Handle>{3, 4}, CopySemantics::kReuseInput).ok());
  ExecuteRequest request;
  request.executable = (*jit)->handle;
  request.args = {7};
  request.results = {8};
  ASSERT_TRUE(c.t.session->Execute(request).ok());
  c.t.Run();
  EXPECT_NE(Last(*c.t.workers[0], Command::kExecute)->execute().grant(), 0u) << "the device does not stand idle for the function";
  EXPECT_EQ(c.t.workers[0]->Count(Command::kGrant), 0);
  for (const auto& worker : c.t.workers) {
    worker->hold_done = false;
    worker->ReleaseDone();
  }
  EXPECT_EQ(*c.t.FetchRows(8), "01234567");
  EXPECT_EQ(c.t.workers[0]->Count(Command::kGrant), 1);
}

TEST(SessionFunctionsTest, StringsComeBackShardByShard) {
  PythonCluster c;
  const auto f = c.Load("copy", {buffers::DType::kString, buffers::DType::kU8});
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  ASSERT_TRUE(c.Call(*f, 1, {2, 3}).ok());
  ASSERT_TRUE(c.t.session->Disassemble(std::vector<Handle>{4, 5, 6, 7}, 2, CopySemantics::kReuseInput).ok());
  ASSERT_TRUE(c.t.session->Destruct(std::vector<Handle>{2}).ok());
  EXPECT_EQ(*c.t.Fetch(6), "strings of shard 2") << "also after the whole array has been dropped";
}

// A client derives the names of results, and another controller gets strings by asking again.
TEST(SessionFunctionsTest, ResultsHaveTheFirstNamesOfTheirRequestAndStringsHoldItForAWhile) {
  PythonCluster c;
  const auto f = c.Load("copy", {buffers::DType::kString, buffers::DType::kU8});
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE(c.t.Put(1, PythonCluster::Rows(), std::string(16, 'x')).ok());
  session::Restoration& restoration = *c.t.session->restoration();
  restoration.AwaitClient();
  const auto call = [&](uint64_t number, Handle strings, Handle bytes) {
    c.t.session->BeginRequest(number);
    EXPECT_TRUE(c.Call(*f, 1, {strings, bytes}).ok());
    c.t.session->EndRequest();
    c.t.Run();
  };
  call(1, 2, 3);
  EXPECT_EQ(restoration.NameOf(3), (RequestName{c.t.session->id(), 1, 1, false}).Number());
  EXPECT_EQ(restoration.untold(), 0u) << "the strings are in the controller alone";
  ASSERT_TRUE(c.t.session->Destruct({2}).ok());
  EXPECT_EQ(restoration.untold(), 1u);
  call(2, 4, 5);
  EXPECT_EQ(restoration.untold(), 1u);
  c.t.timers.Advance(absl::Seconds(70));
  EXPECT_EQ(restoration.untold(), 2u) << "what comes after a request that is not settled takes memory everywhere";
}

TEST(SessionFunctionsTest, CallsWaitForStringsInTheOrderOfTheirStream) {
  PythonCluster c;
  session::HostFunction function{"g", c.t.Toy("copy", 0, 0, 4).SerializeAsString(), c.t.Devices(0, 4), {}, {}};
  function.inputs.push_back(c.t.Rows(0, 4, {4}, buffers::DType::kString));
  CompileRequest request;
  request.format = session::kHostFunctionFormat;
  request.program = Bytes::FromString(session::SerializeHostFunction(function));
  const auto g = c.t.Await<Info>([&](auto done) { c.t.session->Compile(request, std::move(done)); });
  const auto f = c.Load("copy");
  ASSERT_TRUE(f.ok() && g.ok()) << g.status();
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  std::vector<HostShard> sources;
  for (int shard = 0; shard < 4; ++shard)
    sources.push_back({static_cast<Handle>(100 + shard), {buffers::DType::kString, {1}, std::nullopt}, {shard}});
  ASSERT_TRUE(c.t.session->MakeArray(2, function.inputs[0], sources).ok());
  ASSERT_TRUE(c.Call(*g, 2, {}, 5).ok());
  ASSERT_TRUE(c.Call(*f, 1, {3}, 5).ok());
  ASSERT_TRUE(c.Call(*f, 1, {4}, 6).ok());
  ASSERT_TRUE(c.t.session->Destruct(std::vector<Handle>{1, 2}).ok());
  ASSERT_TRUE(c.t.session->DestructExecutable((*f)->handle).ok());
  EXPECT_TRUE(c.t.Ready({4}).ok()) << "another stream";
  EXPECT_EQ(c.t.workers[0]->num_executables(), 2u) << "a call that waits needs it";
  EXPECT_EQ(c.t.workers[0]->Count(Command::kExecute), 1);
  for (int shard = 0; shard < 4; ++shard)
    ASSERT_TRUE(c.t.session->StoreHostBuffer(static_cast<Handle>(100 + shard), Bytes::Copy(absl::StrCat("text ", shard))).ok());
  EXPECT_EQ(*c.t.FetchRows(3), "0123456789abcdef");
  EXPECT_EQ(c.t.workers[0]->num_executables(), 1u);
  const auto& log = c.t.workers[1]->log;
  const auto call = std::find_if(log.begin(), log.end(),
                                 [](const Command& k) { return k.has_execute() && k.execute().string_args_size() > 0; });
  ASSERT_NE(call, log.end());
  ASSERT_EQ(call->execute().string_args_size(), 2);
  EXPECT_EQ(call->execute().string_args(1).shard(), 3);
  EXPECT_EQ(call->execute().string_args(1).contents(), "text 3");
}

TEST(SessionFunctionsTest, AFailureIsTheValueOfAllResults) {
  PythonCluster c;
  const auto f = c.Load("fail", {buffers::DType::kU8, buffers::DType::kString});
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  ASSERT_TRUE(c.Call(*f, 1, {2, 3}).ok());
  EXPECT_EQ(c.t.Ready({2}), absl::ResourceExhaustedError("toy failure"));
  EXPECT_EQ(c.t.Ready({3}), absl::ResourceExhaustedError("toy failure"));
}

TEST(SessionFunctionsTest, ALostHostFailsWhatItWasToMake) {
  PythonCluster c;
  const auto f = c.Load("copy", {buffers::DType::kU8, buffers::DType::kString});
  ASSERT_TRUE(f.ok()) << f.status();
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  c.t.Run();
  c.t.workers[1]->silent = true;
  ASSERT_TRUE(c.Call(*f, 1, {2, 3}).ok());
  c.t.Run();
  c.t.workers[1]->Die();
  EXPECT_FALSE(c.t.Ready({2}).ok());
  EXPECT_THAT(std::string(c.t.Ready({3}).message()), HasSubstr("w1"));
}

TEST(SessionFunctionsTest, ANodeOfAProgramIsSentAtOnceWithItsPlaceInTheProgram) {
  PythonCluster c;
  const auto program = LoadProgram(c.t, Calling("copy", true));
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  c.t.Run();
  for (const auto& worker : c.t.workers) worker->hold_done = true;
  ASSERT_TRUE(c.Call(*program, 1, {2}, 77).ok());
  c.t.Run();
  for (const auto& worker : c.t.workers) {
    ASSERT_EQ(worker->Count(Command::kExecute), 1);
    const auto& execute = Last(*worker, Command::kExecute)->execute();
    EXPECT_EQ(execute.stream(), 77u);
    EXPECT_EQ(execute.grant(), 0u);
    EXPECT_EQ(execute.location(), "node 1 of step: train.py:3 in step");
  }
  EXPECT_TRUE(c.t.session->DestructExecutable((*program)->handle).ok());
  c.t.Run();
  EXPECT_EQ(c.t.workers[0]->num_executables(), 1u) << "a run in flight needs it";
}

TEST(SessionFunctionsTest, ANodeThatFailsFailsTheRun) {
  PythonCluster c;
  ASSERT_TRUE(c.t.Put(1, c.Rows(), "0123456789abcdef").ok());
  for (const std::string toy : {"fail", "copy"}) {
    const auto program = LoadProgram(c.t, Calling(toy, false));
    ASSERT_TRUE(program.ok()) << program.status();
    ExecuteRequest request;
    request.executable = (*program)->handle;
    request.args = {1};
    request.status = 9;
    ASSERT_TRUE(c.t.session->Execute(request).ok());
    const auto run = c.t.Await<RunResult>([&](auto done) { c.t.session->FetchExecuteResult(9, std::move(done)); });
    EXPECT_EQ(run.status(), toy == "fail" ? absl::ResourceExhaustedError("toy failure") : absl::OkStatus());
    EXPECT_TRUE(c.t.session->DestructExecutable((*program)->handle).ok());
    c.t.Run();
    EXPECT_EQ(c.t.workers[0]->num_executables(), 0u);
  }
}

TEST(SessionFunctionsTest, AProgramWhoseFunctionIsRefusedOrDoesNotFitNamesTheNode) {
  PythonCluster c;
  EXPECT_EQ(LoadProgram(c.t, Calling("refuse", false)).status(),
            absl::InvalidArgumentError("toy refusal [at node 1 of step: train.py:3 in step]"));
  auto other = Calling("copy", true);
  other.mutable_nodes(1)->mutable_host_compute()->mutable_takes(0)->set_dims(0, 8);
  EXPECT_THAT(std::string(LoadProgram(c.t, other).status().message()),
              HasSubstr("input 0 of the Python function f is u8[4,4] over 4 devices instead of u8[8,4]"));
  auto unused = Calling("copy", true);
  *unused.add_executables() = unused.executables(0);
  EXPECT_THAT(std::string(LoadProgram(c.t, unused).status().message()), HasSubstr("a Python function that no node calls"));
  EXPECT_EQ(c.t.workers[0]->num_executables(), 0u);
}

TEST(SessionFunctionsTest, WhatDoesNotFitIsRefused) {
  PythonCluster c;
  EXPECT_EQ(c.Load("refuse").status(), absl::InvalidArgumentError("toy refusal"));
  EXPECT_EQ(c.t.workers[0]->num_executables(), 0u);
  const auto f = c.Load("copy");
  ASSERT_TRUE(f.ok());
  ASSERT_TRUE(c.t.Put(1, c.t.Rows(0, 4, {8, 4}), std::string(32, 'x')).ok());
  const absl::Status wrong = c.Call(*f, 1, {2});
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("argument 0 of the Python function f"));
  CompileRequest noise;
  noise.format = session::kHostFunctionFormat;
  noise.program = Bytes::Copy("\xff\xff\xff");
  EXPECT_FALSE(c.t.Await<Info>([&](auto done) { c.t.session->Compile(noise, std::move(done)); }).ok());
  PythonCluster other("tpu");
  EXPECT_THAT(std::string(other.Load("copy").status().message()), HasSubstr("CPU devices only"));
}

}  // namespace
}  // namespace pw::controller
