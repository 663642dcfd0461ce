#include "pathways/base/threads/timer_queue.h"

#include <atomic>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/threads/thread_pool.h"

namespace pw {
namespace {

TEST(TimerQueueTest, FiresInOrderOfDeadlineNotBeforeIt) {
  SteadyClock clock;
  ThreadPool pool("test", 1);
  std::vector<int> order;
  std::atomic<int> fired = 0;
  TimerQueue timers(&clock);
  const absl::Time start = clock.Now();
  for (int ms : {30, 10, 20}) {
    timers.After(absl::Milliseconds(ms), &pool, [&, ms] {
      EXPECT_GE(clock.Now() - start, absl::Milliseconds(ms));
      order.push_back(ms);
      fired.fetch_add(1);
      fired.notify_all();
    });
  }
  for (int n = fired; n < 3; n = fired) fired.wait(n);
  EXPECT_EQ(order, (std::vector<int>{10, 20, 30}));
}

}  // namespace
}  // namespace pw
