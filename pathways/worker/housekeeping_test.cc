#include "pathways/worker/housekeeping.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

namespace df = dataflow;

// The controller's end: what it sends becomes commands, what the worker says comes back.
class ControllerEnd : public df::Links {
 public:
  explicit ControllerEnd(WorkerHarness* worker) : worker_(worker) {}
  void Start(Handler* handler) override { handler_ = handler; }
  void Send(HostId, std::string header, std::vector<Bytes> payload, net::Lane) override {
    std::string bytes;
    for (const Bytes& piece : payload) bytes += piece.view();
    v1::Command command;
    command.mutable_dataflow()->set_header(std::move(header));
    command.mutable_dataflow()->set_payload_bytes(bytes.size());
    queue_.emplace_back(std::move(command), std::move(bytes));
  }
  void Disconnect(HostId, const absl::Status& why) override { ADD_FAILURE() << why; }
  void Settle() {
    do {
      for (auto& [command, bytes] : std::exchange(queue_, {})) worker_->Do(command, bytes);
      worker_->Settle();
      for (auto& [header, payload] : std::exchange(worker_->connection.dataflow, {}))
        handler_->OnFrame(HostId(1), {header, Bytes::FromString(payload)});
      worker_->Settle();
    } while (!queue_.empty());
  }

 private:
  WorkerHarness* const worker_;
  Handler* handler_ = nullptr;
  std::vector<std::pair<v1::Command, std::string>> queue_;
};

std::shared_ptr<const df::Graph> Ask(const std::string& op) {
  const auto there = std::make_shared<const df::Placement>(df::Placement::OnHost(HostId(1)));
  const auto here = std::make_shared<const df::Placement>(df::Placement::OnHost(df::kControllerHost));
  return *df::Graph::Create({{op, op, "", there}, {"result", df::kResultOp, "", here}},
                            {{df::NodeId(0), df::NodeId(1), df::EdgeKind::kOneToOne, true}});
}

class HousekeepingTest : public testing::Test {
 protected:
  // What the worker answers, and how the run ends.
  absl::Status Run(const std::string& op, std::vector<std::string>* answers) {
    std::optional<absl::Status> done;
    df::RunOptions options;
    options.on_tuple = [&](df::NodeId, uint32_t, df::Tuple tuple) { answers->emplace_back(tuple.data.view()); };
    options.on_done = [&](const absl::Status& status) { done = status; };
    controller_.Start(*controller_.Install(Ask(op)), std::move(options));
    links_.Settle();
    return done.value_or(absl::InternalError("not done"));
  }

  WorkerHarness worker_;
  SteadyClock clock_;
  ControllerEnd links_{&worker_};
  df::Runtime controller_{{df::kControllerHost, &worker_.strand, &clock_, nullptr, &links_, nullptr}, {}};
};

TEST_F(HousekeepingTest, MemoryIsWhatTheDevicesHold) {
  std::vector<std::string> answers;
  ASSERT_EQ(Run("memory", &answers), absl::OkStatus());
  ASSERT_THAT(answers, testing::SizeIs(1));
  v1::MemoryReport report;
  ASSERT_TRUE(report.ParseFromString(answers[0]));
  EXPECT_EQ(report.devices_size(), 2);
  EXPECT_EQ(report.arrays(), 0);
}

TEST_F(HousekeepingTest, WhatItDoesNotKnowItRefuses) {
  std::vector<std::string> answers;
  EXPECT_EQ(Run("juggle", &answers).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace pw::worker
