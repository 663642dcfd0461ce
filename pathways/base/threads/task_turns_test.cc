#include "pathways/base/threads/task_turns.h"

#include <atomic>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/thread_pool.h"

namespace pw {
namespace {

TEST(TaskTurnsTest, OwnersTakeTurnsAndEachOwnersTasksKeepTheirOrder) {
  ManualExecutor pool;
  TaskTurns turns(&pool, 1);
  std::string order;
  for (int i = 0; i < 3; ++i) turns.Post("7", [&order, i] { order += static_cast<char>('a' + i); });
  turns.Post("3", [&order] { order += 'A'; });
  turns.Post("9", [&order] { order += '1'; });
  turns.Post("3", [&order] { order += 'B'; });
  pool.RunUntilIdle();
  EXPECT_EQ(order, "Aa1Bbc");
}

TEST(TaskTurnsTest, TasksWithoutAnEndKeepOnlyTheirOwnerWaiting) {
  absl::Notification end;  // outlives the pool, which waits for its tasks
  ThreadPool pool("test", 3);
  TaskTurns turns(&pool, 2);
  for (int i = 0; i < 10; ++i) turns.Post("1", [&end] { end.WaitForNotification(); });
  for (const std::string owner : {"2", "3", "2"}) {
    absl::Notification ran;
    turns.Post(owner, [&ran] { ran.Notify(); });
    ran.WaitForNotification();
  }
  end.Notify();
}

TEST(TaskTurnsTest, EveryTaskRunsAndNeverTooManyOfOneOwner) {
  constexpr int kOwners = 5, kTasks = 200, kMost = 2;
  ThreadPool pool("test", 4);
  std::atomic<int> running[kOwners] = {};
  std::atomic<int> most = 0;
  absl::BlockingCounter left(kOwners * kTasks);
  {
    TaskTurns turns(&pool, kMost);
    for (int i = 0; i < kOwners * kTasks; ++i) {
      turns.Post(std::to_string(i % kOwners), [&, owner = i % kOwners] {
        const int now = ++running[owner];
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        --running[owner];
        left.DecrementCount();
      });
    }
  }  // its tasks run all the same
  left.Wait();
  EXPECT_LE(most, kMost);
}

TEST(TaskTurnsTest, CapturesDieWithTheirTask) {
  ManualExecutor pool;
  TaskTurns turns(&pool, 1);
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = token;
  turns.Post("1", [token = std::move(token)] {});
  EXPECT_FALSE(watch.expired());
  pool.RunUntilIdle();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace pw
