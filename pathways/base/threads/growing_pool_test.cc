#include "pathways/base/threads/growing_pool.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"

namespace pw {
namespace {

TEST(GrowingPoolTest, TasksMayWaitForEachOther) {
  constexpr int kTasks = 20;
  GrowingPool pool("test");
  for (int round = 0; round < 3; ++round) {
    absl::Notification all;
    auto* barrier = new absl::Barrier(kTasks);
    for (int i = 0; i < kTasks; ++i) {
      pool.Post([barrier, &all] {
        if (!barrier->Block()) return;
        delete barrier;
        all.Notify();
      });
    }
    all.WaitForNotification();
  }
}

TEST(GrowingPoolTest, AnIdleThreadIsUsedAgain) {
  GrowingPool pool("test");
  std::thread::id first;
  bool again = false;
  for (int i = 0; i < 1000 && !again; ++i) {  // a thread that has run a task takes a moment to become idle
    std::promise<std::thread::id> ran;        // not absl's: ThreadSanitizer does not instrument that library
    pool.Post([&ran] { ran.set_value(std::this_thread::get_id()); });
    const std::thread::id id = ran.get_future().get();
    again = i > 0 && id == first;
    if (i == 0) first = id;
  }
  EXPECT_TRUE(again);
}

TEST(GrowingPoolTest, WhatWasPostedRunsAfterDestruction) {
  absl::BlockingCounter left(50);
  {
    GrowingPool pool("test");
    for (int i = 0; i < 50; ++i) pool.Post([&left] { left.DecrementCount(); });
  }
  left.Wait();
}

TEST(GrowingPoolTest, ATaskMayHoldTheLastReference) {
  auto pool = std::make_shared<GrowingPool>("test");
  absl::Notification released;
  GrowingPool* raw = pool.get();
  std::weak_ptr<GrowingPool> watch = pool;
  raw->Post([pool = std::move(pool), &released]() mutable {
    released.WaitForNotification();
    pool.reset();
  });
  raw->Post([&released] { released.Notify(); });
  while (!watch.expired()) std::this_thread::yield();
}

TEST(GrowingPoolTest, CapturesDieWithTheirTask) {
  GrowingPool pool("test");
  auto token = std::make_shared<int>(1);
  std::weak_ptr<int> watch = token;
  absl::Notification second;
  pool.Post([token = std::move(token)] {});
  while (!watch.expired()) std::this_thread::yield();
  pool.Post([&second] { second.Notify(); });
  second.WaitForNotification();
}

}  // namespace
}  // namespace pw
