#include "pathways/base/process/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/threads/thread_pool.h"

namespace pw {
namespace {

ChildProcess::Options Shell(const std::string& script) { return {{"sh", "-c", script}, 0}; }

std::string ReadText(ChildProcess& child, size_t size) {
  std::string text(size, '\0');
  const absl::Status status = child.Read(text.data(), size);
  return status.ok() ? text : std::string(status.message());
}

TEST(ChildProcessTest, SpeaksOverStandardInputAndOutput) {
  ChildProcess child(Shell("cat"));
  ASSERT_TRUE(child.EnsureRunning().ok());
  ASSERT_TRUE(child.Write("hello").ok());
  EXPECT_EQ(ReadText(child, 5), "hello");
}

TEST(ChildProcessTest, IsStartedOnceAndAgainAfterItsEnd) {
  ChildProcess child(Shell("echo $$ | head -c 2; read line; exit 3"));
  ASSERT_TRUE(child.EnsureRunning().ok());
  EXPECT_EQ(ReadText(child, 2).size(), 2u);
  ASSERT_TRUE(child.EnsureRunning().ok());
  ASSERT_TRUE(child.Write("go on\n").ok());
  EXPECT_EQ(ReadText(child, 1), "it has closed its output");
  ASSERT_TRUE(child.EnsureRunning().ok());
  EXPECT_EQ(ReadText(child, 2).size(), 2u);
}

TEST(ChildProcessTest, SaysHowItEnded) {
  ChildProcess child(Shell("exit 3"));
  ASSERT_TRUE(child.EnsureRunning().ok());
  EXPECT_EQ(ReadText(child, 1), "it has closed its output");
  EXPECT_EQ(child.End(), "it exited with status 3");
  EXPECT_EQ(child.End(), "it was not started");
}

TEST(ChildProcessTest, KillEndsABlockedRead) {
  ChildProcess child(Shell("sleep 1000 & wait"));  // a grandchild holds the connection too
  ASSERT_TRUE(child.EnsureRunning().ok());
  ThreadPool other("killer", 1);
  other.Post([&] { child.Kill(); });
  EXPECT_EQ(ReadText(child, 1), "it has closed its output");
  EXPECT_EQ(child.End(), "it was ended by signal 9");
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsAnError) {
  ChildProcess child({{"/no/such/program"}, 0});
  const absl::Status status = child.EnsureRunning();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("/no/such/program"), std::string::npos);
}

TEST(ChildProcessTest, InheritsNoDescriptors) {
  const int open_here = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(open_here, 3);
  ChildProcess child(Shell(absl::StrCat("if [ -e /proc/$$/fd/", open_here, " ]; then printf y; else printf n; fi")));
  ASSERT_TRUE(child.EnsureRunning().ok());
  EXPECT_EQ(ReadText(child, 1), "n");
  close(open_here);
}

TEST(ChildProcessTest, ItGetsVariablesThatItDoesNotInherit) {
  ASSERT_EQ(setenv("PW_TEST_INHERITED", "a", 1), 0);
  ChildProcess::Options options = Shell("printf $PW_TEST_INHERITED$PW_TEST_MORE");
  options.with = {"PW_TEST_INHERITED=b", "PW_TEST_MORE=c"};
  ChildProcess child(options);
  ASSERT_TRUE(child.EnsureRunning().ok());
  EXPECT_EQ(ReadText(child, 2), "ac");
}

TEST(ChildProcessTest, ItsMemoryIsLimited) {
  ChildProcess child({{"sh", "-c", "read line; ulimit -v"}, int64_t{512} << 20});
  ASSERT_TRUE(child.EnsureRunning().ok());
  ASSERT_TRUE(child.Write("now\n").ok());
  EXPECT_EQ(ReadText(child, 6), "524288");  // KiB
}

}  // namespace
}  // namespace pw
