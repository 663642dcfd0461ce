#include "pathways/base/process/processor_wait.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "pathways/base/threads/clock.h"

namespace pw {
namespace {

// Binds the calling thread to the first processor that it may use.
void Bind() {
  cpu_set_t allowed, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) {
      CPU_SET(i, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

void Pass(absl::Duration time) { absl::Notification().WaitForNotificationWithTimeout(time); }

// Two busy threads on one processor; the kernel gives one of them only what the other leaves.
TEST(ProcessorWait, AThreadThatIsGivenNoProcessorWaits) {
  SteadyClock clock;
  std::atomic<bool> stop = false;
  const auto compute = [&](int policy) {
    return std::thread([&stop, policy] {
      Bind();
      const sched_param param = {};
      EXPECT_EQ(sched_setscheduler(0, policy, &param), 0);
      while (!stop) {
      }
    });
  };
  std::thread idle = compute(SCHED_IDLE), busy = compute(SCHED_OTHER);
  ProcessorWait self(getpid());
  EXPECT_FALSE(self.Look(clock.Now())) << "the first look";
  bool waits = false;
  for (const absl::Time end = clock.Now() + absl::Seconds(60); !waits && clock.Now() < end;) {
    Pass(absl::Milliseconds(200));
    waits = self.Look(clock.Now());
  }
  EXPECT_TRUE(waits);
  stop = true;
  idle.join();
  busy.join();
}

TEST(ProcessorWait, AProcessThatSleepsOrIsGoneDoesNotWait) {
  SteadyClock clock;
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  ProcessorWait sleeper(child), nobody(int64_t{1} << 40);
  sleeper.Look(clock.Now());
  nobody.Look(clock.Now());
  // A busy machine may keep the child from its pause for a while.
  bool waits = true;
  for (const absl::Time end = clock.Now() + absl::Seconds(60); waits && clock.Now() < end;) {
    Pass(absl::Milliseconds(50));
    waits = sleeper.Look(clock.Now());
  }
  EXPECT_FALSE(waits);
  EXPECT_FALSE(nobody.Look(clock.Now()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace pw
