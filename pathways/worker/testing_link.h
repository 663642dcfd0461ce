// For tests of ControllerLink: a fake controller on an in-memory transport, and manual time. Not for products.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/worker/controller_link.h"
#include "pathways/worker/testing.h"

namespace pw::worker {

class ManualTime : public Clock, public Timers {
 public:
  absl::Time Now() override { return now_; }
  void After(absl::Duration delay, Executor* executor, Task task) override {
    due_.emplace(now_ + delay, std::make_pair(executor, std::move(task)));
  }
  void Advance(absl::Duration by) {
    now_ += by;
    while (!due_.empty() && due_.begin()->first <= now_) {
      auto entry = std::move(due_.begin()->second);
      due_.erase(due_.begin());
      entry.first->Post(std::move(entry.second));
    }
  }

 private:
  absl::Time now_ = absl::UnixEpoch();
  std::multimap<absl::Time, std::pair<Executor*, Task>> due_;
};

// The controller's end.
class FakeController : public net::Connection::Handler {
 public:
  void Accept(std::unique_ptr<net::Connection> c) {
    connection = std::move(c);
    connection->Start(this);
    ++connections;
  }
  void OnFrame(net::Frame frame) override {
    v1::FromWorker message;
    ASSERT_TRUE(message.ParseFromString(frame.header));
    for (const v1::Event& event : message.events()) events.push_back(event);
    if (!message.beside()) ++counted;
    if (message.has_received()) received = message.received();
  }
  void OnClosed(const absl::Status& reason) override { closed = reason; }
  void Send(const v1::Command& command, const std::string& payload = "") {
    v1::ToWorker batch;
    *batch.add_commands() = command;
    std::vector<Bytes> pieces;
    if (!payload.empty()) pieces.push_back(Bytes::Copy(payload));
    connection->Send(batch.SerializeAsString(), std::move(pieces), net::Lane::kUrgent);
  }
  void Welcome(double heartbeat = 1, const std::string& key = "") {
    v1::Command command;
    command.mutable_welcome()->set_key(key);
    command.mutable_welcome()->set_host(3);
    command.mutable_welcome()->set_incarnation(9);
    command.mutable_welcome()->set_heartbeat_seconds(heartbeat);
    Send(command);
  }
  void Ping(uint64_t sequence) {
    v1::Command command;
    command.mutable_ping()->set_sequence(sequence);
    SendBeside(command);
  }
  void SendBeside(const v1::Command& command) {
    v1::ToWorker batch;
    batch.set_beside(true);
    *batch.add_commands() = command;
    connection->Send(batch.SerializeAsString());
  }
  void Resumed(uint64_t received) {
    v1::Command command;
    command.mutable_resumed()->mutable_received()->set_urgent(received);
    SendBeside(command);
  }
  void Put(uint64_t array) {
    v1::Command put;
    put.mutable_put()->set_op(2 * array);
    put.mutable_put()->set_array(array);
    put.mutable_put()->set_dtype(11);
    put.mutable_put()->set_total_bytes(4);
    put.mutable_put()->set_payload_bytes(4);
    put.mutable_put()->add_placements();
    Send(put, "abcd");
  }

  std::unique_ptr<net::Connection> connection;
  std::vector<v1::Event> events;
  uint64_t counted = 0;  // frames of the stream
  v1::ReceivedFrames received;
  absl::Status closed;
  int connections = 0;
};

class LinkTest : public ::testing::Test {
 protected:
  void Start(bool exit_with_controller = false, bool listen = true) {
    if (listen) Listen();
    environment_.runtime = &runtime_;
    environment_.strand = &strand_;
    environment_.clock = &time_;
    environment_.compile_pool = &executor_;
    environment_.compile_cache = std::make_shared<CompileCache>("", 0);
    environment_.transport = &transport_;
    environment_.next_launch_id = &launch_id_;
    LinkOptions options;
    options.controller = "controller:1";
    options.host_name = "hosta";
    options.island = "i0";
    options.data_address = "hosta:2";
    options.exit_with_controller = exit_with_controller;
    options.tls = tls_;
    link_ = std::make_unique<ControllerLink>(environment_, &strand_, &time_, options,
                                             [this](const absl::Status& s) { finished_.push_back(s); });
    link_->Start();
    Run();
  }
  void Listen() {
    listener_ =
        *transport_.Listen("controller:1", [this](std::unique_ptr<net::Connection> c) { controller_.Accept(std::move(c)); });
  }
  void Run() { executor_.RunUntilIdle(); }
  void Advance(absl::Duration by) {
    time_.Advance(by);
    Run();
  }
  void TearDown() override {
    bool stopped = false;
    link_->Stop("end of test", [&] { stopped = true; });
    Run();
    EXPECT_TRUE(stopped);
    link_ = nullptr;
    controller_.connection = nullptr;
    Run();
  }

  ManualExecutor executor_;
  ManualTime time_;
  net::MemoryNetwork network_;
  net::MemoryTransport transport_{&network_, &executor_};
  device::SimulatedRuntime runtime_{{3, &executor_}};
  Strand strand_{&executor_};
  int launch_id_ = 0;
  Environment environment_;
  std::shared_ptr<net::Tls> tls_;  // null: TLS is off
  FakeController controller_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<ControllerLink> link_;
  std::vector<absl::Status> finished_;
};

}  // namespace pw::worker
