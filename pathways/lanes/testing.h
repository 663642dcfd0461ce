// For tests of lanes: a lane with both ends on a network in memory, and an owner that records its calls.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/net/in_memory/memory_transport.h"

namespace pw::lanes {

// Records all calls; fails the test if the lane is closed twice.
class RememberingOwner final : public LaneEnd::Owner {
 public:
  void OnLaneMessage(LaneId, ::pathways::v1::LaneMessage message, Bytes payload) override {
    messages.push_back(std::move(message));
    payloads.push_back(std::string(payload.view()));
  }
  void OnLaneWritable(LaneId) override { ++writable; }
  void OnLaneClosed(LaneId, const absl::Status& reason) override {
    EXPECT_FALSE(closed);
    closed = true;
    close_reason = reason;
  }
  std::vector<::pathways::v1::LaneMessage> messages;
  std::vector<std::string> payloads;
  int writable = 0;
  bool closed = false;
  absl::Status close_reason;
};

// A connected lane; neither end is open yet (LaneEnd::Open). Messages are delivered when the test calls Run or RunOne.
class LanePair {
 public:
  explicit LanePair(const net::Limits& limits = {}) : transport_(&network_, &executor_, nullptr, limits) {
    listener_ = *transport_.Listen("tcp:worker:0", [this](std::unique_ptr<net::Connection> connection) {
      worker = std::make_unique<LaneEnd>(2, std::move(connection), To(&at_worker));
      worker->Start();
    });
    transport_.Connect(listener_->address(), absl::Seconds(1), [this](auto connection) {
      client = std::make_unique<LaneEnd>(1, *std::move(connection), To(&at_client));
      client->Start();
    });
    Run();
  }
  ~LanePair() {
    client = nullptr;
    worker = nullptr;
    Run();
  }
  // Runs one task. Returns false if there is none.
  bool RunOne() { return executor_.RunOne(); }
  void Run() { executor_.RunUntilIdle(); }

  RememberingOwner at_client, at_worker;
  std::unique_ptr<LaneEnd> client, worker;

 private:
  static LaneEnd::PostToOwner To(RememberingOwner* owner) {
    return [owner](absl::AnyInvocable<void(LaneEnd::Owner&)&&> task) { std::move(task)(*owner); };
  }
  ManualExecutor executor_;
  net::MemoryNetwork network_;
  net::MemoryTransport transport_;
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace pw::lanes
