#include "pathways/base/threads/strand.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/threads/thread_pool.h"

namespace pw {
namespace {

TEST(StrandTest, RunsInOrderAndNeverTwoAtOnce) {
  std::vector<int> seen;
  std::atomic<int> inside = 0;
  {
    ThreadPool pool("test", 4);
    Strand strand(&pool);
    for (int i = 0; i < 5000; ++i) {
      strand.Post([&, i] {
        EXPECT_EQ(inside.fetch_add(1), 0);
        EXPECT_TRUE(strand.RunsHere());
        seen.push_back(i);
        inside.fetch_sub(1);
      });
    }
    Strand* raw = &strand;
    EXPECT_FALSE(raw->RunsHere());
    std::atomic<bool> done = false;
    strand.Post([&] {
      done = true;
      done.notify_all();
    });
    done.wait(false);
  }
  ASSERT_EQ(seen.size(), 5000u);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(seen[i], i);
}

TEST(StrandTest, PostersOnManyThreadsEachKeepTheirOrder) {
  constexpr int kThreads = 4, kTasks = 2000;
  std::vector<std::vector<int>> seen(kThreads);
  {
    ThreadPool pool("test", 3);
    Strand strand(&pool);
    std::vector<std::thread> posters;
    for (int t = 0; t < kThreads; ++t) {
      posters.emplace_back([&, t] {
        for (int i = 0; i < kTasks; ++i) strand.Post([&, t, i] { seen[t].push_back(i); });
      });
    }
    for (std::thread& poster : posters) poster.join();
  }  // the pool runs queued tasks before it is destroyed
  for (const auto& one : seen) {
    ASSERT_EQ(one.size(), static_cast<size_t>(kTasks));
    for (int i = 0; i < kTasks; ++i) EXPECT_EQ(one[i], i);
  }
}

TEST(StrandTest, IdleHookRunsAfterABurstAndMayPost) {
  std::atomic<int> flushed = 0;
  int batched = 0;
  {
    ThreadPool pool("test", 1);
    Strand strand(&pool);
    strand.SetIdleHook([&] { flushed += std::exchange(batched, 0); });
    for (int i = 0; i < 100; ++i) strand.Post([&] { ++batched; });
  }
  EXPECT_EQ(flushed, 100);
}

TEST(StrandTest, DropQueuedDestroysWhatWaitsAndWhatThatPosts) {
  struct Never : Executor {
    void Post(Task) override {}
  } never;
  Strand strand(&never);
  bool ran = false, destroyed = false;
  // Posts once more when it is destroyed, as the end of a session may do.
  std::shared_ptr<void> held(
      nullptr, [&](void*) { strand.Post([last = std::shared_ptr<void>(nullptr, [&](void*) { destroyed = true; })] {}); });
  strand.Post([held = std::move(held), &ran] { ran = true; });
  strand.DropQueued();
  EXPECT_TRUE(destroyed);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace pw
