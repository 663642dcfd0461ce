#include "pathways/base/process/thread_stacks.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the lines of the thread of this name.
std::string Of(const std::string& text, const std::string& thread) {
  const size_t at = text.find(thread);
  if (at == std::string::npos) return "";
  const size_t begin = text.find('\n', at) + 1;
  size_t end = begin;
  while (end < text.size() && text[end] == ' ') end = text.find('\n', end) + 1;
  return text.substr(begin, end - begin);
}

std::string MainThread() { return " " + std::to_string(::getpid()) + ":"; }

// A thread of this name that waits until it is told to go on. Its function must appear on its stack.
class Waiting {
 public:
  explicit Waiting(const char* name, void (*first)() = [] {}) {
    std::promise<void> begun;
    thread_ = std::thread([&, name, first] {
      ::pthread_setname_np(::pthread_self(), name);
      first();
      begun.set_value();
      go_on_.get_future().wait();
    });
    begun.get_future().wait();
  }
  ~Waiting() {
    go_on_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> go_on_;
  std::thread thread_;
};

// Returns the number of lines that begin with the name of a thread.
size_t CountHeadings(const std::string& text, const std::string& name) {
  size_t headings = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) headings += text.compare(at, name.size(), name) == 0 ? 1 : 0;
  return headings;
}

TEST(StacksOfThreads, HasEachThreadByNameWithItsFunctions) {
  const Waiting waiting("a-waiting-one");
  const std::string text = StacksOfThreads(nullptr);
  EXPECT_THAT(Of(text, MainThread()), HasSubstr("(libc.so.6)"));
  EXPECT_THAT(Of(text, "a-waiting-one"), HasSubstr("(libc.so.6)"));
}

TEST(StacksOfThreads, AsksForNamesThatTheLinkerDoesNotHave) {
  const std::string text = StacksOfThreads([](const void*, char* name, int size) {
    std::strncpy(name, "a_hidden_function", static_cast<size_t>(size));
    return true;
  });
  EXPECT_THAT(text, HasSubstr("  a_hidden_function  ("));
}

TEST(StacksOfThreads, ThreadsWithTheSameStackStandTogether) {
  std::vector<std::unique_ptr<Waiting>> pool;
  for (int i = 0; i < 8; ++i) pool.push_back(std::make_unique<Waiting>("one-of-eight"));
  // A thread that has just started is not in its wait yet: asks until all are.
  std::string text;
  for (int tries = 0; tries < 1000 && CountHeadings(text, "one-of-eight") != 1; ++tries) text = StacksOfThreads(nullptr);
  EXPECT_EQ(CountHeadings(text, "one-of-eight"), 1u) << text;
  EXPECT_THAT(Of(text, "one-of-eight"), Not(HasSubstr("does not answer")));
}

TEST(StacksOfThreads, AThreadThatBlocksSignalsIsNamedAndHarmsNobody) {
  const Waiting deaf("a-deaf-one", [] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  });
  for (int i = 0; i < 3; ++i) {
    const std::string text = StacksOfThreads(nullptr);
    EXPECT_EQ(Of(text, "a-deaf-one"), "  (does not answer)\n");
    EXPECT_THAT(Of(text, MainThread()), HasSubstr("(libc.so.6)"));
  }
}

TEST(StacksOfThreads, AReadThatWaitsGoesOn) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::atomic<bool> reading = false;
  char byte = 0;
  std::thread reader([&] {
    reading = true;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1);  // does not end with EINTR
  });
  while (!reading) {
  }
  for (int i = 0; i < 5; ++i) StacksOfThreads(nullptr);
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  reader.join();
  EXPECT_EQ(byte, 'x');
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(StacksOfThreads, MayBeAskedByManyThreadsAtOnce) {
  std::vector<std::thread> askers;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 4; ++i) {
    askers.emplace_back([&] {
      for (int k = 0; k < 5; ++k) answered += StacksOfThreads(nullptr).empty() ? 0 : 1;
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_EQ(answered, 20);
}

}  // namespace
}  // namespace pw
