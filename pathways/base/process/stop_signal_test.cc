#include "pathways/base/process/stop_signal.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace pw {
namespace {

TEST(StopSignalTest, ATerminatedProcessStopsInOrder) {
  const pid_t child = fork();
  if (child == 0) {
    StopSignal stop;
    raise(SIGTERM);  // blocked: the signal waits in the descriptor
    _exit(stop.Wait(0) == "signal SIGTERM" ? 17 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 17);
}

TEST(StopSignalTest, AParentThatHasEndedBeforeTheChildLooksEndsIt) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  ASSERT_EQ(waitpid(ended, nullptr, 0), ended);
  const pid_t child = fork();
  if (child == 0) {
    StopSignal stop;
    const bool gone = stop.Wait(ended) == "the parent process has ended";
    const bool another = stop.Wait(1) == "the parent process has ended";  // it lives, and is not the parent
    _exit(gone && another ? 17 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 17);
}

TEST(StopSignalTest, TheEndOfTheParentEndsTheChild) {
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t self = getpid();
    if (fork() == 0) {
      StopSignal stop;
      char c = 'r';
      if (write(ready[1], &c, 1) != 1) _exit(1);
      c = stop.Wait(self) == "the parent process has ended" ? 'p' : 's';
      _exit(write(done[1], &c, 1) == 1 ? 0 : 1);
    }
    char c;
    _exit(read(ready[0], &c, 1) == 1 ? 0 : 1);  // leaves as soon as the grandchild watches
  }
  char c = 0;
  ASSERT_EQ(read(done[0], &c, 1), 1);
  EXPECT_EQ(c, 'p');
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
}

}  // namespace
}  // namespace pw
