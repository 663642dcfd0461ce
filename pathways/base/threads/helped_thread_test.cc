#include "pathways/base/threads/helped_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace pw {
namespace {

using ::testing::ElementsAre;

TEST(HelpedThread, RunsTasksInOrderOnItsThread) {
  std::vector<int> seen;
  std::thread::id where;
  {
    HelpedThread thread("test");
    for (int i = 0; i < 3; ++i) {
      thread.Post([&seen, &where, i] {
        seen.push_back(i);
        where = std::this_thread::get_id();
      });
    }
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(HelpedThread, AHelperRunsTasksAndThoseThatTheyPostOnItsOwnThread) {
  HelpedThread thread("test");
  std::vector<int> seen;
  const std::thread::id here = std::this_thread::get_id();
  {
    Helping help(&thread);
    thread.Post([&] {
      EXPECT_EQ(std::this_thread::get_id(), here);
      thread.Post([&] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        seen.push_back(2);
      });
      seen.push_back(1);
    });
    EXPECT_TRUE(seen.empty()) << "a task ran inside Post";
  }
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(HelpedThread, AHelperLeavesTasksToTheThreadThatRunsThem) {
  HelpedThread thread("test");
  std::promise<void> running, go, done;
  thread.Post([&] {
    running.set_value();
    go.get_future().wait();
  });
  running.get_future().wait();
  {
    Helping help(&thread);
    thread.Post([&done, here = std::this_thread::get_id()] {
      EXPECT_NE(std::this_thread::get_id(), here);
      done.set_value();
    });
  }  // returns although the first task still runs
  go.set_value();
  done.get_future().wait();
}

TEST(HelpedThread, ATaskThatHelpsDoesNotRunTasksInside) {
  HelpedThread thread("test");
  std::vector<int> seen;
  {
    Helping help(&thread);
    thread.Post([&] {
      {
        Helping inner(&thread);
        thread.Post([&] { seen.push_back(2); });
      }
      seen.push_back(1);
    });
  }
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(HelpedThread, AHelperStopsAfterItsShareAndTheThreadRunsTheRest) {
  HelpedThread thread("test");
  std::atomic<int> here = 0, there = 0;
  std::promise<void> last;
  {
    Helping help(&thread);
    for (int i = 0; i < HelpedThread::kMostTasks + 5; ++i) {
      thread.Post([&, mine = std::this_thread::get_id()] {
        ++(std::this_thread::get_id() == mine ? here : there);
        if (here + there == HelpedThread::kMostTasks + 5) last.set_value();
      });
    }
  }
  last.get_future().wait();
  EXPECT_EQ(here, HelpedThread::kMostTasks);
  EXPECT_EQ(there, 5);
}

TEST(HelpedThread, TasksOfManyHelpersAndOthersAllRunOneAtATime) {
  int sum = 0;  // without a lock: tasks run one at a time
  {
    HelpedThread thread("test");
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
      callers.emplace_back([&thread, &sum, c] {
        for (int i = 0; i < 2000; ++i) {
          Helping help(c % 2 == 0 ? &thread : nullptr);
          thread.Post([&] { thread.Post([&sum] { ++sum; }); });
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(sum, 8000);
}

}  // namespace
}  // namespace pw
