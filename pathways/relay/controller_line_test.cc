#include "pathways/relay/controller_line.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <utility>

#include "pathways/relay/testing/bulk_controller.h"

namespace pw::relay {
namespace {

class ControllerLineTest : public ::testing::Test {
 protected:
  // "otherwise" if the line was not the way.
  std::string Fetch(uint64_t handle, size_t bytes = 8) {
    std::promise<std::string> result;
    line_.Fetch(
        {11, handle}, *memories_.Create(bytes),
        [&](absl::StatusOr<Bytes> data) { result.set_value(data.ok() ? std::string(data->view()) : data.status().ToString()); },
        [&](net::SharedMemory memory) { result.set_value(memory.size() == bytes ? "otherwise" : "lost its memory"); });
    return result.get_future().get();
  }
  std::string Store(const std::string& data) {
    std::promise<std::string> result;
    line_.Store(
        {11, 2}, Bytes::Copy(data), [&](absl::Status status) { result.set_value(status.ToString()); },
        [&] { result.set_value("otherwise"); });
    return result.get_future().get();
  }
  // Connects, and waits until that is noticed: what is asked before goes the other way.
  void Open() {
    line_.Open(controller_.address(), "open sesame");
    controller_.AwaitLine();
    for (int tries = 0; tries < 1000000 && Fetch(3) == "otherwise"; ++tries) {
    }
  }

  net::SharedMemoryFactory memories_;
  testing::BulkController controller_{4};
  ControllerLine line_;
};

TEST_F(ControllerLineTest, BringsAndTakesBuffers) {
  EXPECT_EQ(Fetch(1), "otherwise");
  EXPECT_EQ(Store("data"), "otherwise");
  Open();
  EXPECT_EQ(Fetch(1), "contents");
  EXPECT_EQ(Fetch(3), "NOT_FOUND: no such buffer");
  EXPECT_EQ(Fetch(1, 9), "INTERNAL: a bulk line brought 8 bytes of 9");
  EXPECT_EQ(Store("data"), "OK");
  EXPECT_EQ(controller_.stored(), "data");
  EXPECT_EQ(Store("more data"), "RESOURCE_EXHAUSTED: no room");
}

TEST_F(ControllerLineTest, WhatIsUnderWayWhenTheLineBreaksGoesTheOtherWay) {
  Open();
  controller_.silent = true;
  std::thread breaks([this] {
    controller_.AwaitQuestion();
    controller_.Close();
  });
  EXPECT_EQ(Fetch(1), "otherwise");
  breaks.join();
  EXPECT_EQ(Store("data"), "otherwise");
}

TEST_F(ControllerLineTest, AStrangerIsNotAskedAnything) {
  controller_.silent = true;  // a question would end the test's patience
  line_.Open(controller_.address(), "another secret");
  controller_.AwaitLine();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Fetch(1), "otherwise");
}

TEST_F(ControllerLineTest, APortThatNobodyListensOnIsNoError) {
  line_.Open("127.0.0.1:1", "");
  EXPECT_EQ(Fetch(1), "otherwise");
}

}  // namespace
}  // namespace pw::relay
