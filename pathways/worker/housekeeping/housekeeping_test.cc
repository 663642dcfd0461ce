#include "pathways/worker/housekeeping/housekeeping.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/worker/testing.h"
#include "xla/xplane.pb.h"

namespace pw::worker {
namespace {

namespace df = dataflow;

// The controller's end: turns its frames into commands, and receives the worker's dataflow frames.
class ControllerEnd : public df::Links {
 public:
  explicit ControllerEnd(WorkerHarness* worker) : worker_(worker) {}
  void Start(Handler* handler) override { handler_ = handler; }
  void Send(HostId, std::string header, std::vector<Bytes> payload, net::Lane) override {
    std::string bytes;
    for (const Bytes& piece : payload) bytes += piece.view();
    v1::Command command;
    command.mutable_dataflow()->set_header(std::move(header));
    command.mutable_dataflow()->set_payload_bytes(bytes.size());
    queue_.emplace_back(std::move(command), std::move(bytes));
  }
  void Disconnect(HostId, const absl::Status& why) override { ADD_FAILURE() << why; }
  void Settle() {
    do {
      for (auto& [command, bytes] : std::exchange(queue_, {})) worker_->Do(command, bytes);
      worker_->Settle();
      for (auto& [header, payload] : std::exchange(worker_->connection.dataflow, {}))
        handler_->OnFrame(HostId(1), {header, Bytes::FromString(payload)});
      worker_->Settle();
    } while (!queue_.empty());
  }

 private:
  WorkerHarness* const worker_;
  Handler* handler_ = nullptr;
  std::vector<std::pair<v1::Command, std::string>> queue_;
};

std::shared_ptr<const df::Graph> Ask(const std::string& op) {
  const auto there = std::make_shared<const df::Placement>(df::Placement::OnHost(HostId(1)));
  const auto here = std::make_shared<const df::Placement>(df::Placement::OnHost(df::kControllerHost));
  return *df::Graph::Create({{op, op, "", there}, {"result", df::kResultOp, "", here}},
                            {{df::NodeId(0), df::NodeId(1), df::EdgeKind::kOneToOne, true}});
}

class HousekeepingTest : public testing::Test {
 protected:
  // Runs a graph; returns the worker's answers and the status with which the run ends.
  absl::Status Run(const std::string& op, std::vector<std::string>* answers, std::string argument = "") {
    std::optional<absl::Status> done;
    df::RunOptions options;
    options.argument = std::move(argument);
    options.on_tuple = [&](df::NodeId, uint32_t, df::Tuple tuple) { answers->emplace_back(tuple.data.view()); };
    options.on_done = [&](const absl::Status& status) { done = status; };
    controller_.Start(*controller_.Install(Ask(op)), std::move(options));
    links_.Settle();
    return done.value_or(absl::InternalError("not done"));
  }

  WorkerHarness worker_;
  SteadyClock clock_;
  ControllerEnd links_{&worker_};
  df::Runtime controller_{{df::kControllerHost, &worker_.strand, &clock_, nullptr, &links_, nullptr}, {}};
};

TEST_F(HousekeepingTest, MetricsAreWhatTheDevicesHoldAndHaveDone) {
  worker_.Compile(1, kAdd);
  worker_.Put(2, 100, {1, 2, 3, 4});
  worker_.Settle();
  worker_.Execute(3, 1, {100}, {101});
  worker_.Settle();
  std::vector<std::string> answers;
  ASSERT_EQ(Run("metrics", &answers), absl::OkStatus());
  ASSERT_THAT(answers, testing::SizeIs(1));
  v1::MetricsReport report;
  ASSERT_TRUE(report.ParseFromString(answers[0]));
  EXPECT_EQ(report.memory().devices_size(), 2);
  EXPECT_EQ(report.memory().arrays(), 2);
  EXPECT_EQ(report.launches(), 1u);
}

TEST_F(HousekeepingTest, HealthIsWhatWaits) {
  worker_.Compile(1, kAdd);
  v1::Command command;
  auto& execute = *command.mutable_execute();
  execute.set_op(3);
  execute.set_executable(1);
  execute.set_session(1);
  execute.add_args(100);
  execute.add_results(101);
  execute.set_grant(9);  // never granted
  worker_.Put(2, 100, {1, 2, 3, 4});
  worker_.Settle();
  worker_.Do(command);
  worker_.Settle();
  std::vector<std::string> answers;
  ASSERT_EQ(Run("health", &answers), absl::OkStatus());
  ASSERT_THAT(answers, testing::SizeIs(1));
  v1::HealthReport report;
  ASSERT_TRUE(report.ParseFromString(answers[0]));
  EXPECT_EQ(report.commands_parked(), 1);
  EXPECT_EQ(report.executions_waiting(), 1);
  EXPECT_EQ(report.memory_waits(), 0);
}

TEST_F(HousekeepingTest, AnExaminationListsTheLaunchesThatAreNotFinished) {
  worker_.Compile(1, kAdd);
  worker_.Put(2, 100, {1, 2, 3, 4});
  worker_.Settle();
  const auto execute = [&](uint64_t op, uint64_t arg, uint64_t grant) {
    v1::Command command;
    auto& execute = *command.mutable_execute();
    execute.set_op(op);
    execute.set_executable(1);
    execute.set_session(1);
    execute.add_args(arg);
    execute.add_results(100 + op);
    execute.set_grant(grant);
    execute.set_location("train.py:7");
    worker_.Do(command);
    worker_.Settle();
  };
  const auto examine = [&] {
    std::vector<std::string> answers;
    EXPECT_EQ(Run("examine", &answers), absl::OkStatus());
    v1::Examination examination;
    EXPECT_TRUE(answers.size() == 1 && examination.ParseFromString(answers[0]));
    return examination;
  };
  execute(3, 100, 9);  // not granted yet
  v1::Examination examination = examine();
  ASSERT_EQ(examination.launches_size(), 1);
  EXPECT_EQ(examination.launches(0).op(), 3u);
  EXPECT_EQ(examination.launches(0).session(), 1u);
  EXPECT_EQ(examination.launches(0).location(), "train.py:7");
  EXPECT_EQ(examination.launches(0).state(), v1::Examination::Launch::NOT_GRANTED);
  EXPECT_FALSE(examination.launches(0).program().empty());
  v1::Command grant;
  grant.mutable_grant()->add_gangs(9);
  worker_.Do(grant);
  worker_.Settle();
  EXPECT_EQ(examine().launches_size(), 0);  // it has run
}

TEST_F(HousekeepingTest, AConfigurationIsAnsweredWithTheTimeAndItsRecordingBeginsOnce) {
  v1::HostConfig config;
  config.mutable_recording()->set_id(5);
  config.mutable_recording()->set_max_events(100);
  std::vector<std::string> answers;
  ASSERT_EQ(Run("configure", &answers, config.SerializeAsString()), absl::OkStatus());
  v1::Configured configured;
  ASSERT_THAT(answers, testing::SizeIs(1));
  ASSERT_TRUE(configured.ParseFromString(answers[0]));
  EXPECT_GT(configured.now_nanoseconds(), 0);
  worker_.Put(2, 100, {1, 2, 3, 4});
  ASSERT_EQ(Run("configure", &answers, config.SerializeAsString()), absl::OkStatus()) << "again, as when hosts join";
  answers.clear();
  ASSERT_EQ(Run("trace", &answers), absl::OkStatus());
  v1::EndedRecording report;
  ASSERT_THAT(answers, testing::SizeIs(1));
  ASSERT_TRUE(report.ParseFromString(answers[0]));
  EXPECT_GT(report.trace().events_size(), 0) << "what came before the second time is still there";
}

TEST_F(HousekeepingTest, AProfileIsMadeOfTheRecordingAndKeptUntilTheConfigurationChanges) {
  v1::HostConfig config;
  config.mutable_recording()->set_id(5);
  config.mutable_recording()->set_max_events(100);
  config.mutable_recording()->mutable_profile()->set_session(1);
  std::vector<std::string> answers;
  ASSERT_EQ(Run("configure", &answers, config.SerializeAsString()), absl::OkStatus());
  worker_.Put(2, 100, {1, 2, 3, 4});
  worker_.Settle();
  v1::EndRecording how;
  how.set_host("h0");
  answers.clear();
  ASSERT_EQ(Run("trace", &answers, how.SerializeAsString()), absl::OkStatus());
  ASSERT_THAT(answers, testing::SizeIs(1));
  v1::EndedRecording report;
  ASSERT_TRUE(report.ParseFromString(answers[0]));
  EXPECT_EQ(report.trace().events_size(), 0) << "a profile of one session tells nothing else";
  EXPECT_GT(report.profile_bytes(), 0u);
  EXPECT_EQ(report.profile_missing(), "");

  v1::ProfilePart part;
  part.set_recording(5);
  const auto read = [&] {
    answers.clear();
    return Run("profile", &answers, part.SerializeAsString());
  };
  config.clear_recording();
  config.set_kept_profile(5);
  ASSERT_EQ(Run("configure", &answers, config.SerializeAsString()), absl::OkStatus());
  ASSERT_EQ(read(), absl::OkStatus());
  ASSERT_THAT(answers, testing::SizeIs(1));
  v1::ProfilePiece piece;
  ASSERT_TRUE(piece.ParseFromString(answers[0]));
  EXPECT_EQ(piece.bytes().size(), report.profile_bytes());
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(piece.bytes()));
  ASSERT_EQ(space.planes_size(), 1);
  EXPECT_EQ(space.planes(0).name(), "/device:CUSTOM:h0") << "the host's transfers";
  config.clear_kept_profile();
  ASSERT_EQ(Run("configure", &answers, config.SerializeAsString()), absl::OkStatus());
  EXPECT_NE(read(), absl::OkStatus());
  EXPECT_THAT(answers, testing::IsEmpty());
}

TEST_F(HousekeepingTest, AnOrderIsPassedOnAndOneReportHasAllAnswers) {
  v1::HostConfig config;
  v1::ForwardOrder order;
  order.set_op("configure");
  order.add_hosts(1);  // itself
  for (uint64_t version : {3, 2}) {
    config.set_version(version);
    order.set_argument(config.SerializeAsString());
    std::vector<std::string> answers;
    ASSERT_EQ(Run("forward-order", &answers, order.SerializeAsString()), absl::OkStatus());
    ASSERT_THAT(answers, testing::SizeIs(1));
    v1::ForwardReport report;
    ASSERT_TRUE(report.ParseFromString(answers[0]));
    ASSERT_EQ(report.answers_size(), 1);
    EXPECT_EQ(report.answers(0).host(), 1u);
    v1::Configured configured;
    ASSERT_TRUE(configured.ParseFromString(report.answers(0).report()));
    EXPECT_GT(configured.now_nanoseconds(), 0);
    EXPECT_LE(configured.now_nanoseconds(), report.answers(0).heard_nanoseconds());
    EXPECT_LE(report.answers(0).heard_nanoseconds(), report.told_nanoseconds());
    EXPECT_EQ(worker_.worker->configuration(), 3u) << "what was overtaken does not count";
  }
}

TEST_F(HousekeepingTest, CleanUpFreesASessionAndItsPrograms) {
  worker_.Compile(1, kAdd);
  worker_.Put(2, 100, {1, 2, 3, 4});
  worker_.Settle();
  v1::CleanUp what;
  what.add_executables(1);
  what.add_executables(77);  // unknown here
  std::vector<std::string> answers;
  ASSERT_EQ(Run("clean-up", &answers, what.SerializeAsString()), absl::OkStatus());
  worker_.Execute(3, 1, {100}, {101});
  EXPECT_EQ(worker_.connection.done.at(3).code(), absl::StatusCode::kNotFound);
  what.Clear();
  what.add_sessions(1);
  ASSERT_EQ(Run("clean-up", &answers, what.SerializeAsString()), absl::OkStatus());
  EXPECT_EQ(worker_.worker->arrays(), 0);
}

TEST_F(HousekeepingTest, AnOrderThatDoesNotParseIsRefused) {
  std::vector<std::string> answers;
  for (const char* op : {"configure", "clean-up", "abort-launch", "forward-order"})
    EXPECT_EQ(Run(op, &answers, "\xff\xff nonsense").code(), absl::StatusCode::kInvalidArgument) << op;
}

TEST_F(HousekeepingTest, AnOrderForNobodyOrForTheControllerIsRefused) {
  std::vector<std::string> answers;
  v1::ForwardOrder order;
  order.set_op("configure");
  EXPECT_EQ(Run("forward-order", &answers, order.SerializeAsString()).code(), absl::StatusCode::kInvalidArgument) << "nobody";
  order.add_hosts(1);
  order.add_hosts(df::kControllerHost.v);
  EXPECT_EQ(Run("forward-order", &answers, order.SerializeAsString()).code(), absl::StatusCode::kInvalidArgument)
      << "the controller";
  order.clear_hosts();
  for (uint32_t host = 0; host <= df::Placement::kMaxBlocks; ++host) order.add_hosts(2 * host + 1);
  EXPECT_EQ(Run("forward-order", &answers, order.SerializeAsString()).code(), absl::StatusCode::kInvalidArgument) << "too many";
}

TEST_F(HousekeepingTest, AnOrderThatNamesAHostTwiceOrPassesItselfOnEnds) {
  v1::HostConfig config;
  config.set_version(4);
  v1::ForwardOrder inner, outer;
  inner.set_op("configure");
  inner.set_argument(config.SerializeAsString());
  inner.add_hosts(1);
  inner.add_hosts(1);
  outer.set_op("forward-order");
  outer.set_argument(inner.SerializeAsString());
  outer.add_hosts(1);
  std::vector<std::string> answers;
  ASSERT_EQ(Run("forward-order", &answers, outer.SerializeAsString()), absl::OkStatus());
  v1::ForwardReport report, of_inner;
  ASSERT_THAT(answers, testing::SizeIs(1));
  ASSERT_TRUE(report.ParseFromString(answers[0]));
  ASSERT_EQ(report.answers_size(), 1);
  ASSERT_TRUE(of_inner.ParseFromString(report.answers(0).report()));
  EXPECT_EQ(of_inner.answers_size(), 1);
  EXPECT_EQ(worker_.worker->configuration(), 4u);
}

TEST_F(HousekeepingTest, WhatItDoesNotKnowItRefuses) {
  std::vector<std::string> answers;
  EXPECT_EQ(Run("juggle", &answers).code(), absl::StatusCode::kUnimplemented);
}

// A worker whose controller asks for stacks.
class StacksTest : public testing::Test {
 protected:
  // Asks about these sessions. The answer is in `answers` once there is one.
  void Ask(const std::vector<uint64_t>& sessions) {
    v1::StackQuestion question;
    for (uint64_t session : sessions) question.add_sessions(session);
    df::RunOptions options;
    options.argument = question.SerializeAsString();
    options.on_tuple = [this](df::NodeId, uint32_t, df::Tuple tuple) {
      EXPECT_TRUE(answers.emplace_back().ParseFromArray(tuple.data.data(), static_cast<int>(tuple.data.size())));
    };
    controller_.Start(*controller_.Install(pw::worker::Ask("stacks")), std::move(options));
    links_.Settle();
  }
  // Answers the call of a client's program.
  void Reply(size_t call, const std::string& text, int code = 0) {
    v1::Command reply;
    reply.mutable_host_reply()->set_call(worker_.connection.host_calls.at(call).call());
    if (code == 0) reply.mutable_host_reply()->add_result_bytes(text.size());
    reply.mutable_host_reply()->mutable_status()->set_code(code);
    worker_.Do(reply, code == 0 ? text : "");
    links_.Settle();
  }
  static WorkerHarness::Setup Setup(Timers* timers) {
    WorkerHarness::Setup setup;
    setup.timers = timers;
    setup.native_stacks = [] { return std::string("pw-executor 7:\n  Run\n"); };
    return setup;
  }
  ManualClock manual_;
  ManualExecutor world_;
  ManualTimers timers_{&manual_, &world_};
  WorkerHarness worker_{Setup(&timers_)};
  SteadyClock clock_;
  ControllerEnd links_{&worker_};
  df::Runtime controller_{{df::kControllerHost, &worker_.strand, &clock_, nullptr, &links_, nullptr}, {}};
  std::vector<v1::Stacks> answers;
};

TEST_F(StacksTest, AreThoseOfTheWorkerAndOfTheProgramThatWaits) {
  Ask({5});
  ASSERT_EQ(worker_.connection.host_calls.size(), 1u);
  EXPECT_EQ(worker_.connection.host_calls[0].session(), 5u);
  EXPECT_EQ(worker_.connection.host_calls[0].callback(), SessionPython::kStacksCallback);
  EXPECT_TRUE(answers.empty());
  std::string text = "MainThread at train.py:7 in step:\n  File train.py\n";
  text.resize(SessionPython::kStackBytes);
  Reply(0, text);
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_EQ(answers[0].processes_size(), 2);
  EXPECT_EQ(answers[0].processes(0).name(), "the worker");
  EXPECT_EQ(answers[0].processes(0).text(), "pw-executor 7:\n  Run\n");
  EXPECT_EQ(answers[0].processes(1).name(), "the program of client 5");
  EXPECT_EQ(answers[0].processes(1).text(), "MainThread at train.py:7 in step:\n  File train.py\n");
}

TEST_F(StacksTest, AProgramThatDoesNotAnswerInTimeIsMissingAndMayAnswerLater) {
  Ask({5, 6});
  Reply(1, std::string(SessionPython::kStackBytes, 'x'));
  EXPECT_TRUE(answers.empty());
  timers_.Advance(Stacks::kPatience);
  links_.Settle();
  ASSERT_EQ(answers.size(), 1u);
  ASSERT_EQ(answers[0].processes_size(), 2);
  EXPECT_EQ(answers[0].processes(1).name(), "the program of client 6");
  Reply(0, "late");
  EXPECT_EQ(answers.size(), 1u);
}

TEST_F(StacksTest, AProgramThatDoesNotKnowTheQuestionIsMissing) {
  Ask({5});
  Reply(0, "", 5);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].processes_size(), 1);
  Ask({});
  EXPECT_EQ(answers.size(), 2u);
}

TEST_F(StacksTest, AQuestionAboutManyClientsAsksFewAndALongTextIsCut) {
  Ask(std::vector<uint64_t>(1000, 5));
  EXPECT_EQ(worker_.connection.host_calls.size(), static_cast<size_t>(Stacks::kMostSessions));
  for (size_t i = 0; i < Stacks::kMostSessions; ++i) Reply(i, std::string(4 * Stacks::kMostBytes, 'x'));
  ASSERT_EQ(answers.size(), 1u);
  for (const auto& process : answers[0].processes()) EXPECT_LE(process.text().size(), Stacks::kMostBytes);
}

}  // namespace
}  // namespace pw::worker
