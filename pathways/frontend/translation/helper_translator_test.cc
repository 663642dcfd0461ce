// HelperTranslator with a shell as the process; it reads requests of 18 bytes: a program of 3 bytes for version 1.13.0.
#include "pathways/frontend/translation/helper_translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace pw::frontend {
namespace {

using ::testing::HasSubstr;

// Answers with the number of programs that this process has got. Some programs make it misbehave.
constexpr char kHelper[] = R"sh(
n=0
while [ $n -lt 9 ]; do
  n=$((n + 1))
  case "$(head -c 18 | tr -d '\000')" in
    *die) exit 3 ;;
    *hng) exec cat > /dev/null ;;
    *bad) printf '\007garbage!' ;;
    *big) printf '\001\000\000\000\000\000\000\001\000' ;;
    *old) printf '\000\003\000\000\000\000\000\000\000old' ;;
    *) printf "\001\001\000\000\000\000\000\000\000$n" ;;
  esac
done)sh";

// Timers that fire at once, or never.
class TestTimers final : public Timers {
 public:
  void After(absl::Duration, Executor* executor, Task task) override {
    if (passes) executor->Post(std::move(task));
  }
  std::atomic<bool> passes{false};
};

class HelperTranslatorTest : public ::testing::Test {
 protected:
  static HelperTranslator::Options Shell() {
    HelperTranslator::Options options;
    options.command = {"sh", "-c", kHelper};
    return options;
  }
  std::future<absl::StatusOr<Bytes>> Start(const std::string& program) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Bytes>>>();
    helper_->Translate(Bytes::FromString(program), "1.13.0", [promise](auto result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }
  // Returns the translation, or the text of the error.
  std::string Translate(const std::string& program) {
    const absl::StatusOr<Bytes> result = Start(program).get();
    return result.ok() ? std::string(result->view()) : result.status().ToString();
  }

  TestTimers timers_;
  ThreadPool strand_{"strand", 1};
  std::unique_ptr<HelperTranslator> helper_ = std::make_unique<HelperTranslator>(Shell(), &timers_, &strand_);
};

TEST_F(HelperTranslatorTest, OneProcessTranslatesAllPrograms) {
  helper_->Prepare();
  EXPECT_EQ(Translate("abc"), "1");
  EXPECT_EQ(Translate("abc"), "2");
}

TEST_F(HelperTranslatorTest, OneThatDiesCostsOneProgram) {
  EXPECT_EQ(Translate("abc"), "1");
  EXPECT_THAT(Translate("die"), HasSubstr("it exited with status 3"));
  EXPECT_EQ(Translate("abc"), "1") << "of another process";
}

TEST_F(HelperTranslatorTest, OneThatTakesTooLongIsKilled) {
  timers_.passes = true;
  const absl::StatusOr<Bytes> result = Start("hng").get();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("longer than 1m"));
  timers_.passes = false;
  EXPECT_EQ(Translate("abc"), "1");
}

TEST_F(HelperTranslatorTest, OneThatAnswersNonsenseIsEnded) {
  EXPECT_THAT(Translate("bad"), HasSubstr("nonsense"));
  EXPECT_THAT(Translate("big"), HasSubstr("nonsense")) << "an answer of more bytes than are taken";
  EXPECT_EQ(Translate("abc"), "1");
}

TEST_F(HelperTranslatorTest, ARefusalIsNoFailureOfTheProcess) {
  EXPECT_THAT(Translate("old"), ::testing::AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("old"), HasSubstr("sh")));
  EXPECT_EQ(Translate("abc"), "2") << "of the same process";
}

TEST_F(HelperTranslatorTest, WhatWaitsIsLimited) {
  HelperTranslator::Options options = Shell();
  options.max_waiting_bytes = 2;
  helper_ = std::make_unique<HelperTranslator>(std::move(options), &timers_, &strand_);
  EXPECT_THAT(Translate("abc"), HasSubstr("RESOURCE_EXHAUSTED"));
}

TEST_F(HelperTranslatorTest, APythonThatIsNotThereIsNamed) {
  HelperTranslator::Options options;
  options.command = {"/no/such/python"};
  helper_ = std::make_unique<HelperTranslator>(std::move(options), &timers_, &strand_);
  helper_->Prepare();
  EXPECT_THAT(Translate("abc"), HasSubstr("/no/such/python"));
}

TEST_F(HelperTranslatorTest, ItsEndFailsWhatIsUnderWay) {
  auto hangs = Start("hng");
  auto waits = Start("abc");
  helper_ = nullptr;
  EXPECT_EQ(hangs.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waits.get().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace pw::frontend
