#include "pathways/base/process/restarted.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace pw {
namespace {

using Tell = std::function<void(const std::string&)>;

// What a supervisor and its children do, in a process of its own. Children count themselves, and write a letter to a pipe.
class RestartedTest : public ::testing::Test {
 protected:
  RestartedTest() {
    EXPECT_EQ(pipe(said_), 0);
    restarts_.name = "the test";
    restarts_.final = {3};
    restarts_.first_pause = absl::Milliseconds(1);
  }
  ~RestartedTest() override {
    close(said_[0]);
    if (said_[1] >= 0) close(said_[1]);
  }

  void Say(char letter) {
    if (write(said_[1], &letter, 1) != 1) _exit(99);
  }
  char Hear() {
    char letter = 0;
    return read(said_[0], &letter, 1) == 1 ? letter : '\0';
  }
  // Starts a supervisor of such children.
  void Start(std::function<int(const std::string& told, const Tell& tell)> run) {
    supervisor_ = fork();
    if (supervisor_ != 0) return (void)close(std::exchange(said_[1], -1));
    stop_ = std::make_unique<StopSignal>();
    _exit(RunRestarted(restarts_, stop_.get(), [&](const std::string& told, const Tell& tell) -> int { _exit(run(told, tell)); }));
  }
  // Returns what the children say until the supervisor ends, and then its exit status as a number: "aa1".
  std::string Run() {
    std::string said;
    while (const char letter = Hear()) said += letter;
    int status = 0;
    EXPECT_EQ(waitpid(supervisor_, &status, 0), supervisor_);
    EXPECT_TRUE(WIFEXITED(status));
    return said + std::to_string(WEXITSTATUS(status));
  }

  Restarts restarts_;
  pid_t supervisor_ = 0;
  std::unique_ptr<StopSignal> stop_;  // in the supervisor and its children
  int said_[2];
};

TEST_F(RestartedTest, AChildThatFailsIsStartedAgainAndGetsWhatTheOneBeforeHasTold) {
  Start([this](const std::string& told, const Tell& tell) {
    Say(told.empty() ? '-' : told.back());
    if (told == "ab") return 0;
    tell(told.empty() ? "a" : told + "b");
    return told.empty() ? raise(SIGKILL) : 7;
  });
  EXPECT_EQ(Run(), "-ab0");
}

TEST_F(RestartedTest, AChildThatHasToldNothingFailsForGood) {
  Start([this](const std::string&, const Tell&) {
    Say('x');
    return 2;
  });
  EXPECT_EQ(Run(), "x2") << "bad flags";
}

TEST_F(RestartedTest, AChildThatWantsToEndIsNotStartedAgain) {
  Start([this](const std::string&, const Tell& tell) {
    tell("served");
    Say('x');
    return 3;
  });
  EXPECT_EQ(Run(), "x3");
}

TEST_F(RestartedTest, AChildThatFailsAgainAndAgainIsGivenUp) {
  restarts_.most_failures = 3;
  Start([this](const std::string&, const Tell&) {
    Say('x');
    return raise(SIGKILL);
  });
  EXPECT_EQ(Run(), "xxx1");
}

TEST_F(RestartedTest, FailuresThatAreFarApartDoNotCount) {
  restarts_.most_failures = 2;
  restarts_.within = absl::ZeroDuration();
  Start([this](const std::string& told, const Tell& tell) {
    tell(told + "x");
    Say('x');
    return told.size() == 5 ? 0 : 1;
  });
  EXPECT_EQ(Run(), "xxxxxx0");
}

TEST_F(RestartedTest, SignalsArePassedOnAndEndIt) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Start([this](const std::string&, const Tell& tell) {
      tell("served");
      Say('r');
      stop_->Wait(0);
      Say(stop_->signal() == SIGINT ? 'i' : 't');
      return 5;  // a failure, if nobody had asked for the end
    });
    ASSERT_EQ(Hear(), 'r');
    kill(supervisor_, signal);
    EXPECT_EQ(Run(), signal == SIGINT ? "i5" : "t5");
    close(said_[0]);
    ASSERT_EQ(pipe(said_), 0);
  }
}

TEST_F(RestartedTest, ASignalEndsThePauseBeforeTheNextStart) {
  restarts_.first_pause = absl::Hours(1);
  Start([this](const std::string&, const Tell&) {
    Say('x');
    return raise(SIGKILL);
  });
  ASSERT_EQ(Hear(), 'x');
  kill(supervisor_, SIGTERM);
  const std::string end = Run();
  EXPECT_TRUE(end == "0" || end == "137") << end << ": the second if it came before the child's end";
}

TEST_F(RestartedTest, AChildKnowsThatItsSupervisorWasKilled) {
  Start([this](const std::string&, const Tell& tell) {
    const pid_t supervisor = getppid();
    tell("served");
    Say('r');
    Say(stop_->Wait(supervisor) == "the parent process has ended" ? 'p' : 's');
    return 0;
  });
  ASSERT_EQ(Hear(), 'r');
  kill(supervisor_, SIGKILL);
  EXPECT_EQ(Hear(), 'p');
  EXPECT_EQ(waitpid(supervisor_, nullptr, 0), supervisor_);
}

TEST_F(RestartedTest, TheEndOfItsParentEndsTheChildToo) {
  int parent_ready[2];
  ASSERT_EQ(pipe(parent_ready), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    restarts_.parent = getpid();
    Start([this](const std::string&, const Tell& tell) {
      tell("served");
      Say('r');
      stop_->Wait(0);
      Say(stop_->signal() == SIGINT ? 'i' : 't');
      return 0;
    });
    char c;
    _exit(read(parent_ready[0], &c, 1) == 1 ? 0 : 1);
  }
  close(std::exchange(said_[1], -1));
  ASSERT_EQ(Hear(), 'r');
  ASSERT_EQ(write(parent_ready[1], "g", 1), 1);
  EXPECT_EQ(Hear(), 't');
  EXPECT_EQ(Hear(), '\0') << "the supervisor has ended";
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  close(parent_ready[0]), close(parent_ready[1]);
}

}  // namespace
}  // namespace pw
