// Programs newer than the devices' runtime, against a cluster that reads StableHLO up to 1.13.7.
#include "pathways/frontend/translation/translating_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "pathways/base/testing/manual_world.h"
#include "pathways/frontend/testing/session_fixture.h"
#include "pathways/frontend/translation/client_translator.h"

namespace pw::frontend {
namespace {

using ::testing::AllOf;
using testing::ClientSessionTest;
using ::testing::HasSubstr;

constexpr char kNewer[] = "StableHLO_v1.16.3 newer";
constexpr char kTranslated[] = "StableHLO_v1.13.0 translated";
constexpr char kToken[] = "token";

// The client's process: holds calls until the test lets it answer.
class FakeChannel final : public controller::HostCallHandler {
 public:
  void OnHostCall(controller::HostCall call, controller::ResultCallback<std::vector<Bytes>> done) override {
    ++calls;
    last = std::move(call);
    waiting.push_back(std::move(done));
    if (answers.has_value()) Answer(*answers);
  }
  void Answer(absl::StatusOr<std::vector<Bytes>> results) {
    std::move(waiting.front())(std::move(results));
    waiting.pop_front();
  }
  int calls = 0;
  controller::HostCall last;
  std::deque<controller::ResultCallback<std::vector<Bytes>>> waiting;
  std::optional<absl::StatusOr<std::vector<Bytes>>> answers;
};

class FakeHelper final : public ProgramTranslator {
 public:
  void Prepare() override { prepared = true; }
  void Translate(Bytes, std::string version, controller::ResultCallback<Bytes> done) override {
    ++calls;
    last_version = std::move(version);
    std::move(done)(answer);
  }
  int calls = 0;
  bool prepared = false;
  std::string last_version;
  absl::StatusOr<Bytes> answer = Bytes::FromString(kTranslated);
};

class TranslatingCompilerTest : public ClientSessionTest {
 protected:
  TranslatingCompilerTest() { Use(&helper_); }
  void Use(ProgramTranslator* helper, TranslatingCompiler::Options options = {}) {
    compiler_ = std::make_shared<TranslatingCompiler>(options, helper, &timers_, &files_);
    services_.compiler = compiler_;
  }
  // Connects as a client with our package.
  std::shared_ptr<FakeChannel> ConnectWithChannel(const std::string& token = kToken) {
    auto channel = std::make_shared<FakeChannel>();
    EXPECT_TRUE(table_.AddCompanion(token, channel).ok());
    Connect({{kCompanionKey, token}});
    Init();
    return channel;
  }
  IfrtResponse CompileProgram(const std::string& program) { return Compile("xla::ifrt::XlaProgram", program); }
  static std::vector<Bytes> Result(const std::string& text) { return {Bytes::FromString(text)}; }

  FakeHelper helper_;
  ManualExecutor executor_;
  ManualClock manual_clock_;
  ManualTimers timers_{&manual_clock_, &executor_};
  std::shared_ptr<TranslatingCompiler> compiler_;
};

INSTANTIATE_TEST_SUITE_P(Newest, TranslatingCompilerTest, ::testing::Values(protocol::kNewest));

TEST_P(TranslatingCompilerTest, WhatTheDevicesReadIsNotTranslated) {
  auto channel = ConnectWithChannel();
  EXPECT_EQ(CodeOf(CompileProgram("StableHLO_v1.13.7 as it is")), 0);
  EXPECT_EQ(CodeOf(CompileProgram("no version")), 0);
  EXPECT_EQ(CodeOf(CompileProgram("broken")), 3);
  EXPECT_EQ(fake().compilations, 3);
  EXPECT_FALSE(fake().last_compile.translated);
  EXPECT_EQ(channel->calls + helper_.calls, 0);
}

TEST_P(TranslatingCompilerTest, AClientTranslatesItsOwnProgramOnce) {
  auto channel = ConnectWithChannel();
  channel->answers = Result(kTranslated);
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0);
  EXPECT_EQ(channel->last.callback, kTranslateCallback);
  ASSERT_EQ(channel->last.data.size(), 2u);
  EXPECT_EQ(channel->last.data[0].view(), kNewer);
  EXPECT_EQ(channel->last.data[1].view(), "1.13.7");
  EXPECT_EQ(fake().last_compile.program.view(), kTranslated);
  EXPECT_TRUE(fake().last_compile.translated);
  EXPECT_EQ(fake().compilations, 2) << "as it is, and translated";
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0);
  EXPECT_EQ(fake().compilations, 3) << "straight";
  EXPECT_EQ(channel->calls, 1);
  EXPECT_EQ(helper_.calls, 0);
  EXPECT_FALSE(helper_.prepared);
}

TEST_P(TranslatingCompilerTest, WhatAClientAnswersReachesNoOther) {
  ConnectWithChannel("first")->answers = Result(kTranslated);
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0);
  const auto first = session_;
  auto second = ConnectWithChannel("second");
  second->answers = Result("StableHLO_v1.13.0 its own");
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0);
  EXPECT_EQ(second->calls, 1);
  EXPECT_EQ(cluster_.sessions.rbegin()->second->last_compile.program.view(), "StableHLO_v1.13.0 its own");
  EXPECT_EQ(compiler_->translations().size(), 2u);
  session_->End();
  EXPECT_EQ(compiler_->translations().size(), 1u);
}

TEST_P(TranslatingCompilerTest, TheHelperTranslatesForClientsWithoutOurPackage) {
  Init();
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0);
  EXPECT_TRUE(helper_.prepared);
  EXPECT_EQ(helper_.last_version, "1.13.7");
  EXPECT_EQ(fake().last_compile.program.view(), kTranslated);
  session_->End();
  Connect({});
  Init();
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0);
  EXPECT_EQ(fake().compilations, 1) << "the translation serves other clients";
  EXPECT_EQ(helper_.calls, 1);
}

TEST_P(TranslatingCompilerTest, NewerPatchesAloneDoNotStartTheHelper) {
  Init();
  EXPECT_EQ(CodeOf(CompileProgram("StableHLO_v1.13.9 refused")), 0);
  EXPECT_EQ(helper_.calls, 1);
  EXPECT_FALSE(helper_.prepared);
}

TEST_P(TranslatingCompilerTest, TheHelperStandsInForAnOlderPackage) {
  auto channel = ConnectWithChannel();
  channel->answers = absl::NotFoundError("function 0");
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0);
  EXPECT_EQ(helper_.calls, 1);
}

TEST_P(TranslatingCompilerTest, AFailureSaysWhatTheDevicesSaidAndWhy) {
  auto channel = ConnectWithChannel();
  channel->answers = absl::InternalError("ValueError: no");
  EXPECT_THAT(TextOf(CompileProgram(kNewer)), AllOf(HasSubstr("do not read StableHLO 1.16.3"),
                                                    HasSubstr("translated to StableHLO 1.13.7"), HasSubstr("ValueError: no")));
  channel->answers = Result(kTranslated);
  EXPECT_EQ(CodeOf(CompileProgram(kNewer)), 0) << "the next works";
}

TEST_P(TranslatingCompilerTest, AnOlderHelperIsAnErrorWithTheRemedy) {
  Init();
  helper_.answer = absl::InvalidArgumentError("jaxlib 0.10.2 knows StableHLO up to 1.14.0");
  EXPECT_THAT(TextOf(CompileProgram(kNewer)),
              AllOf(HasSubstr("1.16.3"), HasSubstr("1.14.0"), HasSubstr("Install the client's jaxlib"),
                    HasSubstr("older jax on the client")));
  Use(nullptr);
  EXPECT_THAT(TextOf(CompileProgram(kNewer)), AllOf(HasSubstr("1.16.3"), HasSubstr("1.13.7"), HasSubstr("--translator-python")));
}

TEST_P(TranslatingCompilerTest, AClientThatDoesNotAnswerFailsItsCompile) {
  auto channel = ConnectWithChannel();
  EXPECT_EQ(CompileProgram(kNewer).response_metadata().op_id(), 0u) << "no answer yet";
  const uint64_t op = op_id_;
  timers_.Advance(absl::Seconds(60));
  cluster_.RunAll();
  ASSERT_EQ(sink_.responses.back().response_metadata().op_id(), op);
  EXPECT_THAT(TextOf(sink_.responses.back()), HasSubstr("did not translate it within 1m"));
  channel->Answer(Result(kTranslated));  // too late
  EXPECT_EQ(compiler_->translations().size(), 0u);
}

TEST_P(TranslatingCompilerTest, AClientThatGoesLeavesNothing) {
  auto channel = ConnectWithChannel();
  CompileProgram(kNewer);
  session_->End();
  channel->Answer(Result(kTranslated));
  cluster_.RunAll();
  EXPECT_EQ(compiler_->translations().size(), 0u);
}

TEST_P(TranslatingCompilerTest, WhatComesBackIsChecked) {
  auto channel = ConnectWithChannel();
  for (const char* answer : {"", "garbage", kNewer}) {
    channel->answers = Result(answer);
    EXPECT_THAT(TextOf(CompileProgram(kNewer)), HasSubstr("not a program for that version")) << answer;
  }
  channel->answers = std::vector<Bytes>();
  EXPECT_THAT(TextOf(CompileProgram(kNewer)), HasSubstr("0 translations"));
}

TEST_P(TranslatingCompilerTest, LargeProgramsAreNotTranslated) {
  TranslatingCompiler::Options options;
  options.max_program_bytes = 8;
  Use(&helper_, options);
  Init();
  EXPECT_THAT(TextOf(CompileProgram(kNewer)), AllOf(HasSubstr("23 bytes"), HasSubstr("constants as arguments")));
  EXPECT_EQ(helper_.calls, 0);
}

TEST_P(TranslatingCompilerTest, ASuspendedClientCompilesWhenItIsResumed) {
  auto channel = ConnectWithChannel();
  CompileProgram(kNewer);
  fake().pause = true;
  channel->Answer(Result(kTranslated));
  cluster_.RunAll();
  EXPECT_EQ(fake().compilations, 1);
  fake().Resume();
  cluster_.RunAll();
  EXPECT_EQ(fake().compilations, 2);
}

}  // namespace
}  // namespace pw::frontend
