#include "pathways/device/pjrt/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

namespace pw::device::pjrt {
namespace {

using ::testing::ElementsAre;

TEST(Launcher, LaunchesOnAThreadOfItsOwn) {
  std::promise<std::thread::id> where;
  Launcher launcher(/*at_once=*/false);
  launcher.Launch(false, [&] { where.set_value(std::this_thread::get_id()); });
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
}

TEST(Launcher, LaunchesAtOnceForAPluginThatNeverWaits) {
  bool launched = false;
  Launcher launcher(/*at_once=*/true);
  launcher.Launch(false, [&] { launched = true; });
  EXPECT_TRUE(launched);
}

TEST(Launcher, KeepsTheOrderBehindALaunchThatMayWait) {
  std::vector<int> order;
  std::promise<void> go, last;
  Launcher launcher(/*at_once=*/true);
  launcher.Launch(true, [&, wait = go.get_future()]() mutable {
    wait.wait();
    order.push_back(1);
  });
  launcher.Launch(false, [&] { order.push_back(2); });
  EXPECT_TRUE(order.empty());
  launcher.Launch(false, [&] {
    order.push_back(3);
    last.set_value();
  });
  go.set_value();
  last.get_future().wait();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace pw::device::pjrt
