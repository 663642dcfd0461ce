// FakeDataflow: a fake worker's part in the controller's housekeeping graphs. It has the real runtime; its operators invent their answers,
// or pass orders to the fake worker. Runs on the threads that deliver to it, one call at a time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/log.h"
#include "pathways/base/threads/clock.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/examination.pb.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class FakeDataflow : private dataflow::Links, private Executor {
 public:
  using SendEvent = std::function<void(const ::pathways::v1::FromWorker&, std::vector<Bytes>)>;
  // Called for each order; not for one that does not parse.
  struct Told {
    std::function<void(const ::pathways::v1::HostConfig&)> configure;
    std::function<void(const ::pathways::v1::CleanUp&)> clean_up;
    std::function<void(const ::pathways::v1::AbortLaunch&)> abort_launch;
  };

  FakeDataflow(HostId self, int devices, SendEvent send, Told told) : send_(std::move(send)), told_(std::move(told)) {
    Add("metrics", [devices](const std::string&) {
      ::pathways::v1::MetricsReport report;
      for (int d = 0; d < devices; ++d) report.mutable_memory()->add_devices()->set_used_bytes(100 + d);
      return report.SerializeAsString();
    });
    Add("health", [](const std::string&) {
      ::pathways::v1::HealthReport report;
      report.set_commands_parked(7);
      return report.SerializeAsString();
    });
    Add("examine", [this](const std::string&) {
      ::pathways::v1::Examination examination;
      examination.set_wall_clock_nanoseconds(1);
      examination.set_release("fake");
      examination.set_files_open(++examined_);
      return examination.SerializeAsString();
    });
    Add("stacks", [](const std::string& argument) {
      ::pathways::v1::StackQuestion question;
      ::pathways::v1::Stacks stacks;
      for (int i = 0; question.ParseFromString(argument) && i < question.sessions_size(); ++i) {
        stacks.add_processes()->set_name("the program of client " + std::to_string(question.sessions(i)));
        stacks.mutable_processes(i)->set_text("MainThread at train.py:7\nE1128 a forged line\x1b[2J");
      }
      return stacks.SerializeAsString();
    });
    Add("trace", [this](const std::string& argument) {
      ::pathways::v1::EndRecording how;
      if (how.ParseFromString(argument)) profile_ = how.host();
      ::pathways::v1::EndedRecording report;
      report.set_profile_bytes(profile_.size());
      return report.SerializeAsString();
    });
    Add("profile", [this](const std::string& argument) {
      ::pathways::v1::ProfilePart part;
      ::pathways::v1::ProfilePiece piece;
      if (part.ParseFromString(argument) && part.offset() <= profile_.size()) piece.set_bytes(profile_.substr(part.offset(), 1));
      return piece.SerializeAsString();
    });
    AddTold("configure", &told_.configure);
    AddTold("clean-up", &told_.clean_up);
    AddTold("abort-launch", &told_.abort_launch);
    runtime_ = std::make_unique<dataflow::Runtime>(
        dataflow::Runtime::Environment{self, this, &clock_, nullptr, this, &operators_}, dataflow::RuntimeKnobs{});
  }
  void OnFrame(const ::pathways::v1::DataflowFrame& frame, std::string payload) {
    handler_->OnFrame(dataflow::kControllerHost, {frame.header(), Bytes::FromString(std::move(payload))});
    RunTasks();
  }
  void TellFailed(const ::pathways::v1::LaunchFailed& failed) {
    const auto there = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(dataflow::kControllerHost));
    dataflow::RunOptions options;
    options.argument = failed.SerializeAsString();
    runtime_->Start(*runtime_->Install(*dataflow::Graph::Create({{"", "launch-failed", "", there}}, {})), std::move(options));
    RunTasks();
  }

 private:
  using Do = std::function<std::string(const std::string& argument)>;
  struct Duty : dataflow::Operator {
    explicit Duty(Do work) : work(std::move(work)) {}
    void OnInputsClosed(dataflow::Shard& shard) override {
      const Bytes answer = Bytes::FromString(work(shard.argument()));
      for (dataflow::EdgeId edge : shard.outputs()) shard.Send(edge, shard.index(), {answer, absl::OkStatus()});
      shard.Finish();
    }
    const Do work;
  };
  void Add(std::string name, Do work) {
    operators_.Add(std::move(name),
                   [work](const dataflow::OperatorContext&) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
                     return std::make_unique<Duty>(work);
                   });
  }
  template <class Order>
  void AddTold(std::string name, const std::function<void(const Order&)>* tell) {
    Add(std::move(name), [tell](const std::string& argument) {
      Order order;
      if (order.ParseFromString(argument)) (*tell)(order);
      return std::string();
    });
  }
  // Links
  void Start(Handler* handler) override { handler_ = handler; }
  void Send(HostId, std::string header, std::vector<Bytes> payload, net::Lane) override {
    ::pathways::v1::FromWorker message;
    auto* frame = message.add_events()->mutable_dataflow();
    frame->set_header(std::move(header));
    for (const Bytes& piece : payload) frame->set_payload_bytes(frame->payload_bytes() + piece.size());
    send_(message, std::move(payload));
  }
  void Disconnect(HostId, const absl::Status& why) override { PW_LOG_ERROR << "a fake worker cannot read a frame: " << why; }
  // Executor
  void Post(Task task) override { tasks_.push_back(std::move(task)); }
  void RunTasks() {
    for (; !tasks_.empty(); tasks_.pop_front()) std::move(tasks_.front())();
  }

  const SendEvent send_;
  const Told told_;
  SteadyClock clock_;
  uint64_t examined_ = 0;  // times
  std::string profile_;    // the bytes of the host's profile: its name
  std::deque<Task> tasks_;
  dataflow::Operators operators_;
  Handler* handler_ = nullptr;
  std::unique_ptr<dataflow::Runtime> runtime_;
};

}  // namespace pw::controller
