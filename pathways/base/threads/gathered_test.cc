#include "pathways/base/threads/gathered.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace pw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Numbers = std::vector<int>;

bool Add(Gathered<Numbers>& numbers, int number) {
  return numbers.Add([number](Numbers& all) { all.push_back(number); });
}

Numbers Take(Gathered<Numbers>& numbers) {
  Numbers taken;
  numbers.PassOn([&](Numbers all) { taken = std::move(all); });
  return taken;
}

Numbers Sweep(Gathered<Numbers>& numbers) {
  Numbers taken;
  numbers.Sweep([&](Numbers all) { taken = std::move(all); });
  return taken;
}

TEST(GatheredTest, IsTakenOnceInOrder) {
  Gathered<Numbers> numbers;
  EXPECT_THAT(Take(numbers), IsEmpty());
  EXPECT_TRUE(Add(numbers, 1));
  EXPECT_FALSE(Add(numbers, 2)) << "a sweep is to come";
  EXPECT_THAT(Take(numbers), ElementsAre(1, 2));
  EXPECT_THAT(Take(numbers), IsEmpty());
}

TEST(GatheredTest, OneSweepIsToComeForAllThatIsAddedMeanwhile) {
  Gathered<Numbers> numbers;
  EXPECT_TRUE(Add(numbers, 1));
  EXPECT_THAT(Take(numbers), ElementsAre(1));
  EXPECT_FALSE(Add(numbers, 2)) << "although the first was taken";
  EXPECT_THAT(Sweep(numbers), ElementsAre(2));
  EXPECT_THAT(Sweep(numbers), IsEmpty());
  EXPECT_TRUE(Add(numbers, 3));
}

TEST(GatheredTest, ThreadsThatAddAndTakeLoseNothing) {
  constexpr int kThreads = 4, kNumbers = 5000;
  Gathered<Numbers> numbers;
  std::vector<size_t> taken(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kNumbers; ++i) {
        static_cast<void>(Add(numbers, i));
        taken[t] += Take(numbers).size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t all = Sweep(numbers).size();
  for (size_t count : taken) all += count;
  EXPECT_EQ(all, size_t{kThreads * kNumbers});
}

TEST(GatheredTest, WhatAThreadQueuesComesBehindItsOwnAdditions) {
  Gathered<Numbers> numbers;
  static_cast<void>(Add(numbers, 1));
  std::promise<void> taken, queued;
  Numbers queue;
  // Another thread takes the addition, and is held up before it queues it: until this thread has overtaken it, which it must not.
  std::thread other([&] {
    numbers.PassOn([&](Numbers all) {
      taken.set_value();
      queued.get_future().wait_for(std::chrono::milliseconds(100));
      queue.insert(queue.end(), all.begin(), all.end());
    });
  });
  taken.get_future().wait();
  numbers.PassOn([&](Numbers) { queue.push_back(-1); });
  queued.set_value();
  other.join();
  EXPECT_THAT(queue, ElementsAre(1, -1));
}

}  // namespace
}  // namespace pw
