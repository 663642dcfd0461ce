#include "pathways/base/threads/gathered.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(GatheredTest, IsTakenOnceInOrder) {
  Gathered<Numbers> numbers;
  EXPECT_THAT(numbers.Take(), IsEmpty());
  EXPECT_TRUE(Add(numbers, 1));
  EXPECT_FALSE(Add(numbers, 2)) << "a sweep is to come";
  EXPECT_THAT(numbers.Take(), ElementsAre(1, 2));
  EXPECT_THAT(numbers.Take(), IsEmpty());
}

TEST(GatheredTest, OneSweepIsToComeForAllThatIsAddedMeanwhile) {
  Gathered<Numbers> numbers;
  EXPECT_TRUE(Add(numbers, 1));
  EXPECT_THAT(numbers.Take(), ElementsAre(1));
  EXPECT_FALSE(Add(numbers, 2)) << "although the first was taken";
  EXPECT_THAT(numbers.Sweep(), ElementsAre(2));
  EXPECT_THAT(numbers.Sweep(), IsEmpty());
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
        taken[t] += numbers.Take().size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t all = numbers.Sweep().size();
  for (size_t count : taken) all += count;
  EXPECT_EQ(all, size_t{kThreads * kNumbers});
}

}  // namespace
}  // namespace pw
