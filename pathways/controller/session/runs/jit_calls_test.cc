#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Command;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program with one argument and one result of rows over the first `devices` devices.
std::shared_ptr<const ExecutableInfo> Copy(TestCluster& t, int devices, std::vector<int> donated = {}) {
  auto info = t.Compile(t.Toy("copy", 1, 1, devices, donated), t.Devices(0, devices));
  EXPECT_TRUE(info.ok()) << info.status();
  return *info;
}

TEST(CompileTest, TellsWhatTheProgramMakes) {
  TestCluster t(1, 4);
  t.Open();
  auto info = Copy(t, 4, {0});
  EXPECT_EQ(info->name, "copy");
  EXPECT_THAT(info->donated_inputs, ElementsAre(0));
  ASSERT_EQ(info->output_specs.size(), 1u);
  EXPECT_EQ(info->output_specs[0].dims, (buffers::Dims{4, 4}));
  EXPECT_EQ(info->devices, t.Devices(0, 4));
  EXPECT_EQ((*t.session->Info(info->handle))->name, "copy");
  EXPECT_EQ(*t.Await<std::string>([&](auto done) { t.session->GetProgramText(info->handle, std::move(done)); }), "text of copy");
  EXPECT_EQ(
      t.Await<CostAnalysis>([&](auto done) { t.session->GetCostAnalysis(info->handle, std::move(done)); })->numbers.at("flops"),
      12);
  EXPECT_TRUE(t.session->DestructExecutable(info->handle).ok());
  t.Run();
  EXPECT_EQ(t.workers[0]->num_executables(), 0u);
  EXPECT_EQ(t.session->DestructExecutable(info->handle).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(t.Await<std::string>([&](auto done) { t.session->GetProgramText(info->handle, std::move(done)); }).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(CompileTest, AProgramThatTheHostDoesNotReadIsMarked) {
  TestCluster t(2, 4);
  t.Open();
  auto toy = t.Toy("copy", 1, 1, 4);
  toy.set_newer_than_runtime(true);
  EXPECT_TRUE(t.Compile(toy, t.Devices(0, 4)).status().GetPayload(kNewerThanRuntime).has_value());
  EXPECT_FALSE(t.Compile(t.Toy("refuse", 1, 1, 4), t.Devices(0, 4)).status().GetPayload(kNewerThanRuntime).has_value());
}

TEST(CompileTest, TranslatedProgramsAreCounted) {
  TestCluster t(2, 4);
  t.Open();
  CompileRequest request;
  request.format = "mlir";
  request.num_partitions = 4;
  request.devices = t.Devices(0, 4);
  for (bool translated : {false, true}) {
    for (const char* name : {"copy", "refuse"}) {
      request.translated = translated;
      request.program = Bytes::FromString(t.Toy(name, 1, 1, 4).SerializeAsString());
      (void)t.Await<std::shared_ptr<const ExecutableInfo>>([&](auto done) { t.session->Compile(request, std::move(done)); });
    }
  }
  const std::string json = *t.Await<std::string>([&](auto done) { t.cluster->GetStatus(std::move(done)); });
  EXPECT_NE(json.find("\"translated_programs\":1,"), std::string::npos) << json;
}

TEST(CompileTest, ErrorsKeepTheirCodeAndText) {
  TestCluster t(2, 4);
  t.Open();
  EXPECT_EQ(t.Compile(t.Toy("refuse", 1, 1, 4), t.Devices(0, 4)).status(), absl::InvalidArgumentError("toy refusal"));
  const absl::Status spanning = t.Compile(t.Toy("copy", 1, 1, 8), t.Devices(0, 8)).status();
  EXPECT_EQ(spanning.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(spanning.message()), HasSubstr("'w0'"));
  EXPECT_EQ(t.Compile(t.Toy("copy", 1, 1, 1), t.Devices(12, 1)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(t.Compile(t.Toy("copy", 1, 1, 1), {DeviceId(0), DeviceId(0)}).status().code(), absl::StatusCode::kInvalidArgument);
  CompileRequest none;
  none.num_partitions = 0;
  EXPECT_FALSE(
      t.Await<std::shared_ptr<const ExecutableInfo>>([&](auto done) { t.session->Compile(none, std::move(done)); }).ok());
  none.num_partitions = 1 << 30;
  none.num_replicas = 1 << 30;
  EXPECT_FALSE(
      t.Await<std::shared_ptr<const ExecutableInfo>>([&](auto done) { t.session->Compile(none, std::move(done)); }).ok());
  auto bad = t.Toy("copy", 1, 1, 4);
  bad.mutable_outputs(0)->set_op_sharding("garbage");
  EXPECT_FALSE(t.Compile(bad, t.Devices(0, 4)).ok());
  EXPECT_EQ(t.workers[0]->Count(Command::kDropExecutable), 1);
}

// Two hosts of two devices each, whose runtimes connect.
struct TwoHosts {
  TwoHosts() : t(0, 0, Expecting(2)) {
    for (int h = 0; h < 2; ++h) t.Add({absl::StrCat("w", h), "i0", 2, "cpu", "1.13.0", 1, absl::StrCat("address of w", h)});
    t.Open();
  }
  static ClusterOptions Expecting(int hosts) {
    ClusterOptions options;
    options.expect_hosts = hosts;
    return options;
  }
  TestCluster t;
};

TEST(SeveralHostsTest, EachCompilesAndRunsItsPart) {
  TwoHosts two;
  TestCluster& t = two.t;
  auto info = Copy(t, 4);
  ASSERT_NE(info, nullptr);
  for (int h = 0; h < 2; ++h) {
    const auto& compile = t.workers[h]->log.back().compile();
    EXPECT_THAT(compile.hosts(), ElementsAre(0, 0, 1, 1));
    EXPECT_THAT(compile.local_devices(), ElementsAre(0, 1, 0, 1));
    ASSERT_EQ(compile.processes_size(), 2);
    EXPECT_EQ(compile.processes(1).address(), "address of w1");
  }
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {4, 4}), "aaaabbbbccccdddd").ok());
  ASSERT_TRUE(t.Execute(info->handle, {1}, {2}).ok());
  ASSERT_TRUE(t.Execute(info->handle, {2}, {3}).ok());
  EXPECT_EQ(*t.FetchRows(3), "aaaabbbbccccdddd");
  std::vector<std::vector<uint64_t>> launches(2);
  for (int h = 0; h < 2; ++h) {
    EXPECT_EQ(t.workers[h]->Count(Command::kExecute), 2) << "one for each call";
    for (const Command& command : t.workers[h]->log) {
      if (command.has_execute()) launches[h].push_back(command.execute().launch());
    }
  }
  EXPECT_EQ(launches[0], launches[1]);
  EXPECT_NE(launches[0][0], launches[0][1]);
  EXPECT_TRUE(t.session->DestructExecutable(info->handle).ok());
  t.Run();
  EXPECT_EQ(t.workers[0]->num_executables() + t.workers[1]->num_executables(), 0u);
}

TEST(SeveralHostsTest, AShardIsToldWhenAllHostsHaveCalledBack) {
  TwoHosts two;
  TestCluster& t = two.t;
  const absl::Status waits = absl::CancelledError("still waiting");
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {4, 4}), "aaaabbbbccccdddd").ok());
  for (const bool calls_back : {false, true}) {
    auto toy = t.Toy("copy", 1, 1, 4);
    if (calls_back) toy.set_fingerprint("... pathways_host_callback ...");
    auto info = t.Compile(toy, t.Devices(0, 4));
    ASSERT_TRUE(info.ok()) << info.status();
    t.workers[0]->hold_done = true;
    ASSERT_TRUE(t.Execute((*info)->handle, {1}, {2}).ok());
    ASSERT_TRUE(t.session->Disassemble({3, 4, 5, 6}, 2, CopySemantics::kReuseInput).ok());
    EXPECT_EQ(t.Ready({6}), calls_back ? waits : absl::OkStatus());
    if (calls_back)
      EXPECT_EQ(t.Fetch(6).status(), waits);
    else
      EXPECT_EQ(*t.Fetch(6), "dddd");
    t.workers[0]->hold_done = false;
    t.workers[0]->ReleaseDone();
    EXPECT_EQ(t.Ready({6}), absl::OkStatus());
    EXPECT_EQ(*t.Fetch(6), "dddd");
    EXPECT_EQ(*t.FetchRows(2), "aaaabbbbccccdddd");
    EXPECT_TRUE(t.session->Destruct({2, 3, 4, 5, 6}).ok());
  }
}

TEST(SeveralHostsTest, TheErrorOfOneIsTheErrorOfTheCompilation) {
  TwoHosts two;
  EXPECT_EQ(two.t.Compile(two.t.Toy("refuse", 1, 1, 4), two.t.Devices(0, 4)).status(), absl::InvalidArgumentError("toy refusal"));
}

TEST(SeveralHostsTest, ThatOneDoesNotReadAProgramGoesBeforeOtherErrors) {
  for (int reader : {0, 1}) {
    TwoHosts two;
    two.t.workers[reader]->reads_newer = true;  // and refuses it for another reason
    auto toy = two.t.Toy("refuse", 1, 1, 4);
    toy.set_newer_than_runtime(true);
    const absl::Status status = two.t.Compile(toy, two.t.Devices(0, 4)).status();
    EXPECT_TRUE(status.GetPayload(kNewerThanRuntime).has_value()) << status;
    EXPECT_EQ(status.message(), "cannot read it");
  }
}

TEST(SeveralHostsTest, WhatFailsOnOneIsToldToTheOthers) {
  TwoHosts two;
  TestCluster& t = two.t;
  ::pathways::v1::LaunchFailed failed;
  failed.set_launch(9);
  failed.mutable_status()->set_message("it broke");
  failed.add_hosts(1);
  failed.add_hosts(17);  // gone
  t.workers[0]->FailLaunch(failed);
  t.Run();
  EXPECT_EQ(t.workers[0]->Count(Command::kAbortLaunch), 0);
  ASSERT_EQ(t.workers[1]->Count(Command::kAbortLaunch), 1);
  EXPECT_EQ(t.workers[1]->log.back().abort_launch().launch(), 9u);
  EXPECT_EQ(t.workers[1]->log.back().abort_launch().status().message(), "it broke");
}

TEST(SeveralHostsTest, AHostThatIsLostTakesTheWholeWithIt) {
  TwoHosts two;
  TestCluster& t = two.t;
  auto info = Copy(t, 4);
  auto small = t.Compile(t.Toy("copy", 1, 1, 2), t.Devices(0, 2));
  ASSERT_TRUE(t.Put(1, t.Rows(0, 4, {4, 4}), "aaaabbbbccccdddd").ok());
  ASSERT_TRUE(t.Put(2, t.Rows(0, 2, {2, 4}), "aaaabbbb").ok());
  t.Run();
  t.workers[1]->Die();
  t.Run();
  const auto reply = t.Execute(info->handle, {1}, {3});
  const absl::Status status = reply.ok() ? t.Ready({3}) : reply.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'w1'"));
  ASSERT_TRUE(t.Execute((*small)->handle, {2}, {4}).ok());
  EXPECT_EQ(*t.FetchRows(4), "aaaabbbb") << "what is left goes on";
}

TEST(CompileTest, SaysWhetherTheProgramCallsBack) {
  TestCluster t(1, 1);
  t.Open();
  auto toy = t.Toy("copy", 1, 1, 1);
  ASSERT_TRUE(t.Compile(toy, t.Devices(0, 1)).ok());
  EXPECT_FALSE(t.workers[0]->log.back().compile().host_callbacks());
  toy.set_fingerprint("... pathways_host_callback ...");  // somewhere in the bytes
  ASSERT_TRUE(t.Compile(toy, t.Devices(0, 1)).ok());
  EXPECT_TRUE(t.workers[0]->log.back().compile().host_callbacks());
}

TEST(CompileTest, WithoutDevicesTheFirstOnesAreTaken) {
  TestCluster t(1, 4);
  t.Open();
  CompileRequest request;
  request.num_replicas = 2;
  request.program = Bytes::FromString(t.Toy("copy", 1, 1, 2).SerializeAsString());
  auto info =
      t.Await<std::shared_ptr<const ExecutableInfo>>([&](auto done) { t.session->Compile(std::move(request), std::move(done)); });
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ((*info)->devices, t.Devices(0, 2));
}

TEST(ExecuteTest, OneCommandAndOneRecordHoweverManyShards) {
  for (int devices : {1, 8, 2048}) {
    TestCluster t(1, devices);
    t.Open();
    auto info = Copy(t, devices);
    ASSERT_TRUE(t.Put(1, t.Rows(0, devices, {devices, 4}), std::string(4 * devices, 'x')).ok());
    t.Run();
    const int frames = t.workers[0]->frames;
    const size_t ops = t.cluster->fabric().ops().size();
    ASSERT_TRUE(t.Execute(info->handle, {1}, {2}).ok());
    EXPECT_EQ(t.cluster->fabric().ops().size(), ops + 1);
    t.Run();
    EXPECT_EQ(t.workers[0]->Count(Command::kExecute), 1);
    EXPECT_EQ(t.workers[0]->frames, frames + 1);
    EXPECT_LT(t.workers[0]->log.back().ByteSizeLong(), 40u);
    EXPECT_TRUE(t.Ready({2}).ok());
  }
}

TEST(ExecuteTest, ChainsRunWithoutWaitingAndAreFreedInOrder) {
  TestCluster t(1, 2);
  t.Open();
  auto info = Copy(t, 2);
  ASSERT_TRUE(t.session->MakeArray(1, t.Rows(0, 2, {2, 4}), {{1, {buffers::DType::kU8, {1, 4}}, {0, 1}}}).ok());
  for (Handle h = 1; h < 100; ++h) {
    ASSERT_TRUE(t.Execute(info->handle, {h}, {h + 1}).ok());
    ASSERT_TRUE(t.session->Destruct({h}).ok());
  }
  EXPECT_EQ(t.Ready({100}).message(), "still waiting");
  ASSERT_TRUE(t.session->StoreHostBuffer(1, Bytes::Copy("abcd")).ok());
  ASSERT_TRUE(t.Ready({100}).ok());
  EXPECT_EQ(*t.FetchRows(100), "abcdabcd");
  t.Run();
  EXPECT_EQ(t.workers[0]->num_shards(), 2u);
  EXPECT_EQ(t.cluster->fabric().ops().size(), 0u);
}

// A client by the PJRT door asks for the end of each call, and runs ahead.
TEST(ExecuteTest, HostsHearOfDroppedArraysBeforeTheNextCallAlthoughTheirEndIsAwaited) {
  TestCluster t(1, 1);
  t.Open();
  auto info = Copy(t, 1);
  ASSERT_TRUE(t.Put(1, t.Rows(0, 1, {1, 4}), "abcd").ok());
  t.Run();
  t.workers[0]->hold_done = true;
  t.workers[0]->log.clear();
  int ends = 0;
  for (Handle h = 1; h < 4; ++h) {
    ASSERT_TRUE(t.Execute(info->handle, {h}, {h + 1}).ok());
    t.session->WhenReady({h + 1}, [&](absl::Status status) { ends += status.ok() ? 1 : 100; });
    ASSERT_TRUE(t.session->Destruct({h}).ok());
    t.Run();
  }
  std::string kinds;
  for (const Command& command : t.workers[0]->log) kinds += command.has_execute() ? 'x' : command.has_release() ? 'r' : '?';
  EXPECT_EQ(kinds, "xrxrxr");
  EXPECT_EQ(ends, 0);
  t.workers[0]->ReleaseDone();
  t.Run();
  EXPECT_EQ(ends, 3);
  EXPECT_EQ(t.workers[0]->num_shards(), 1u);
}

TEST(ExecuteTest, TheFirstCallGetsServerHandles) {
  TestCluster t(1, 1);
  t.Open();
  auto info = Copy(t, 1);
  ASSERT_TRUE(t.Put(1, t.Single(0, {1, 4}), "abcd").ok());
  auto reply = t.Execute(info->handle, {1}, {});
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->results.size(), 1u);
  EXPECT_GE(reply->results[0], kFirstServerHandle);
  EXPECT_EQ(reply->specs->at(0).dims, (buffers::Dims{1, 4}));
  EXPECT_EQ(*t.Fetch(reply->results[0]), "abcd");
}

TEST(ExecuteTest, FailuresAreValues) {
  TestCluster t(1, 1);
  t.Open();
  auto fail = *t.Compile(t.Toy("fail", 1, 1, 1), t.Devices(0, 1));
  auto copy = Copy(t, 1);
  ASSERT_TRUE(t.Put(1, t.Single(0, {1, 4}), "abcd").ok());
  EXPECT_TRUE(t.Execute(fail->handle, {1}, {2}, 77).ok());
  EXPECT_TRUE(t.Execute(copy->handle, {2}, {3}).ok());  // before the failure is reported
  const absl::Status failure = absl::ResourceExhaustedError("toy failure");
  EXPECT_EQ(t.Ready({2}), failure);
  EXPECT_EQ(t.Ready({3}), failure);
  const int executes = t.workers[0]->Count(Command::kExecute);
  EXPECT_TRUE(t.Execute(copy->handle, {3}, {4}, 78).ok());  // and afterwards
  EXPECT_EQ(t.Ready({4}), failure);
  EXPECT_EQ(t.Fetch(4).status(), failure);
  EXPECT_EQ(t.workers[0]->Count(Command::kExecute), executes);
  for (Handle status : {77, 78}) {
    EXPECT_EQ(t.Await<RunResult>([&](auto done) { t.session->FetchExecuteResult(status, std::move(done)); }).status(), failure);
  }
  EXPECT_TRUE(t.Execute(copy->handle, {1}, {5}).ok());
  EXPECT_TRUE(t.Ready({5}).ok());
  EXPECT_TRUE(t.session->Destruct({{2, 3, 4}}).ok());
}

TEST(ExecuteTest, DonatedArgumentsAreGoneAtOnce) {
  TestCluster t(1, 1);
  t.Open();
  auto info = Copy(t, 1, {0});
  ASSERT_TRUE(t.Put(1, t.Single(0, {1, 4}), "abcd").ok());
  ASSERT_TRUE(t.Execute(info->handle, {1}, {2}).ok());
  EXPECT_TRUE(*t.session->IsDeleted(1));
  const absl::Status again = t.Execute(info->handle, {1}, {3}).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(t.Ready({3}), again);
  EXPECT_EQ(*t.Fetch(2), "abcd");
  EXPECT_EQ(t.workers[0]->num_shards(), 1u);
  EXPECT_EQ(t.workers[0]->Count(Command::kRelease), 0);
  ExecuteRequest keep;
  keep.executable = info->handle;
  keep.args = {2};
  keep.results = {4};
  keep.non_donatable = {0};
  ASSERT_TRUE(t.session->Execute(keep).ok());
  EXPECT_FALSE(*t.session->IsDeleted(2));
  EXPECT_EQ(*t.Fetch(2), "abcd");
  keep.results = {5};
  keep.non_donatable = {1};
  EXPECT_FALSE(t.session->Execute(keep).ok());
}

TEST(ExecuteTest, AnErrorConsumesDonatedArgumentsToo) {
  TestCluster t(1, 1);
  t.Open();
  auto info = *t.Compile(t.Toy("copy", 2, 1, 1, {0}), t.Devices(0, 1));
  ASSERT_TRUE(t.Put(1, t.Single(0, {1, 4}), "abcd").ok());
  ASSERT_TRUE(t.session->MakeErrorArray(2, t.Single(0, {1, 4}), absl::AbortedError("x")).ok());
  ASSERT_TRUE(t.Execute(info->handle, {1, 2}, {3}).ok());
  EXPECT_TRUE(*t.session->IsDeleted(1));
  EXPECT_EQ(t.Ready({3}), absl::AbortedError("x"));
  EXPECT_EQ(t.workers[0]->num_shards(), 0u);
}

TEST(ExecuteTest, ResultsOfRunsAreKeptUntilFetched) {
  TestCluster t(1, 1);
  t.Open();
  auto info = Copy(t, 1);
  ASSERT_TRUE(t.Put(1, t.Single(0, {1, 4}), "abcd").ok());
  t.Run();
  t.workers[0]->hold_done = true;
  ASSERT_TRUE(t.Execute(info->handle, {1}, {2}, 50).ok());
  EXPECT_EQ(t.Execute(info->handle, {1}, {3}, 50).status().code(), absl::StatusCode::kAlreadyExists);
  absl::StatusOr<RunResult> result = absl::UnknownError("not yet");
  t.session->FetchExecuteResult(50, [&](auto r) { result = r; });
  t.Run();
  EXPECT_EQ(result.status().message(), "not yet");
  t.workers[0]->ReleaseDone();
  t.Run();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->device_microseconds.at("cpu"), 7.5);
  EXPECT_EQ(t.Await<RunResult>([&](auto done) { t.session->FetchExecuteResult(50, std::move(done)); }).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ExecuteTest, RefusesWhatMakesNoSense) {
  TestCluster t(1, 4);
  t.Open();
  auto info = Copy(t, 2);
  ASSERT_TRUE(t.Put(1, t.Rows(0, 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(t.Put(2, t.Rows(2, 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(t.Put(3, t.Single(0, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(t.Put(4, t.Single(0, {1}, buffers::DType::kString), "text").ok());
  Handle h = 20;
  auto expect = [&](absl::StatusOr<ExecuteReply> reply, absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(reply.status().code(), code) << reply.status();
    EXPECT_THAT(std::string(reply.status().message()), HasSubstr(text));
    EXPECT_EQ(t.Ready({h}), reply.status());
    ++h;
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  expect(t.Execute(99, {1}, {h}), absl::StatusCode::kNotFound, "executable 99");
  expect(t.Execute(info->handle, {98}, {h}), absl::StatusCode::kNotFound, "array 98");
  expect(t.Execute(info->handle, {}, {h}), kInvalid, "takes 1 arguments, not 0");
  expect(t.Execute(info->handle, {2}, {h}), kInvalid, "other devices");
  expect(t.Execute(info->handle, {3}, {h}), kInvalid, "other devices");
  expect(t.Execute(info->handle, {4}, {h}), kInvalid, "string");
  expect(t.Execute(info->handle, {1}, {h, h + 1000}), kInvalid, "has 1 results, not 2");
  ExecuteRequest elsewhere;
  elsewhere.executable = info->handle;
  elsewhere.args = {1};
  elsewhere.results = {h};
  elsewhere.devices = t.Devices(2, 2);
  expect(t.session->Execute(elsewhere), absl::StatusCode::kUnimplemented, "compile it for them");
  EXPECT_EQ(t.Execute(info->handle, {1}, {1}).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*t.FetchRows(1), "abcdefgh");
  t.Run();
  EXPECT_EQ(t.workers[0]->Count(Command::kExecute), 0);
}

TEST(ExecuteTest, OnALostHostIsAnErrorThatNamesIt) {
  TestCluster t(2, 1);
  t.Open();
  auto info = *t.Compile(t.Toy("copy", 0, 1, 1), t.Devices(1, 1));
  t.workers[1]->Die();
  t.Run();
  const absl::Status status = t.Execute(info->handle, {}, {1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'w1'"));
  EXPECT_EQ(t.Await<std::string>([&](auto done) { t.session->GetProgramText(info->handle, std::move(done)); }).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(SessionEndTest, FreesEverythingAndAnswersEveryone) {
  TestCluster t(2, 2);
  Session& s = t.Open();
  auto info = Copy(t, 2);
  ASSERT_TRUE(t.Put(1, t.Rows(0, 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(t.Put(2, t.Single(2, {3}), "abc").ok());
  ASSERT_TRUE(s.MakeArray(3, t.Single(2, {3}), {{3, {buffers::DType::kU8, {3}}, {0}}}).ok());
  ASSERT_TRUE(s.MakeArray(4, t.Single(2, {1}, buffers::DType::kString), {{4, {buffers::DType::kString, {1}}, {0}}}).ok());
  t.Run();
  std::vector<absl::Status> answers;
  auto note = [&](absl::Status status) { answers.push_back(status); };
  s.WhenReady({{1, 3}}, note);
  s.WhenReady({4}, note);
  s.CopyToHostBuffer(3, 60, std::nullopt, note);
  s.LookupHostBuffer(60, [&](auto bytes) { note(bytes.status()); });
  s.CopyToHostBuffer(4, 61, std::nullopt, note);
  t.workers[0]->hold_compiled = true;
  s.Compile(CompileRequest{}, [&](auto r) { note(r.status()); });
  t.workers[0]->hold_done = true;
  ASSERT_TRUE(t.Execute(info->handle, {1}, {5}, 70).ok());
  s.FetchExecuteResult(70, [&](auto r) { note(r.status()); });
  t.Run();
  EXPECT_TRUE(answers.empty());
  const int releases = t.workers[0]->Count(Command::kRelease);
  t.session = nullptr;
  t.Run();
  ASSERT_EQ(answers.size(), 7u);
  for (const absl::Status& status : answers) EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  for (auto& worker : t.workers) {
    EXPECT_EQ(worker->Count(Command::kReleaseOwner), 1);
    EXPECT_EQ(worker->num_shards(), 0u);
  }
  EXPECT_EQ(t.workers[0]->num_executables(), 0u);
  EXPECT_EQ(t.workers[0]->Count(Command::kRelease), releases);  // not one by one
  t.workers[0]->ReleaseDone();
  t.workers[0]->ReleaseCompiled();
  t.Run();
  EXPECT_EQ(t.cluster->fabric().compiles().size(), 0u);
  EXPECT_EQ(t.cluster->fabric().fetches().size(), 0u);
}

TEST(SessionEndTest, OtherSessionsNoticeNothing) {
  TestCluster t(1, 1);
  auto first = *t.cluster->OpenSession("first");
  t.Open();
  ASSERT_TRUE(first->StoreHostBuffer(1, Bytes::Copy("a")).ok());
  ASSERT_TRUE(first->MakeArray(1, t.Single(0, {1}), {{1, {buffers::DType::kU8, {1}}, {0}}}).ok());
  ASSERT_TRUE(t.Put(1, t.Single(0, {1}), "b").ok());
  t.Run();
  first = nullptr;
  EXPECT_EQ(*t.Fetch(1), "b");
  EXPECT_EQ(t.workers[0]->num_shards(), 1u);
}

TEST(LifetimeTest, DeleteKeepsTheHandleDestructDoesNot) {
  TestCluster t(1, 1);
  Session& s = t.Open();
  ASSERT_TRUE(t.Put(1, t.Single(0, {1}), "a").ok());
  ASSERT_TRUE(t.Put(2, t.Single(0, {1}), "b").ok());
  t.Run();
  EXPECT_EQ(s.Delete({{1, 9}}).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(*s.IsDeleted(1));
  EXPECT_FALSE(*s.IsDeleted(2));
  EXPECT_EQ(s.Spec(1)->dims, (buffers::Dims{1}));
  t.Run();
  EXPECT_EQ(t.workers[0]->num_shards(), 1u);
  EXPECT_EQ(s.Destruct({{9, 1, 2}}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(s.IsDeleted(1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(s.Spec(2).status().code(), absl::StatusCode::kNotFound);
  t.Run();
  EXPECT_EQ(t.workers[0]->num_shards(), 0u);
  EXPECT_EQ(t.workers[0]->Count(Command::kRelease), 2);
}

TEST(LifetimeTest, AWaitingReaderKeepsAnArray) {
  TestCluster t(1, 1);
  Session& s = t.Open();
  ASSERT_TRUE(s.MakeArray(1, t.Single(0, {1}), {{1, {buffers::DType::kU8, {1}}, {0}}}).ok());
  absl::Status ready = absl::UnknownError("not yet");
  s.WhenReady({1}, [&](absl::Status status) { ready = status; });
  ASSERT_TRUE(s.Destruct({1}).ok());
  t.Run();
  EXPECT_EQ(ready.message(), "not yet");
  ASSERT_TRUE(s.StoreHostBuffer(1, Bytes::Copy("a")).ok());
  t.Run();
  EXPECT_TRUE(ready.ok());
  t.Run();
  EXPECT_EQ(t.workers[0]->num_shards(), 0u);
}

}  // namespace
}  // namespace pw::controller
