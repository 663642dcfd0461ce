// FakeDataflow: a fake worker's part in the controller's housekeeping graphs: the real runtime, and operators that make their
// answers up. Runs on the threads that deliver to the fake worker, one call at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pathways/base/clock.h"
#include "pathways/base/log.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

class FakeDataflow : private dataflow::Links, private Executor {
 public:
  using SendEvent = std::function<void(const ::pathways::v1::FromWorker&, std::vector<Bytes>)>;

  FakeDataflow(HostId self, int devices, SendEvent send) : send_(std::move(send)) {
    operators_.Add("memory", [devices](const dataflow::OperatorContext&) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
      return std::make_unique<Memory>(devices);
    });
    runtime_ = std::make_unique<dataflow::Runtime>(
        dataflow::Runtime::Environment{self, this, &clock_, nullptr, this, &operators_}, dataflow::RuntimeKnobs{});
  }
  void OnFrame(const ::pathways::v1::DataflowFrame& frame, std::string payload) {
    handler_->OnFrame(dataflow::kControllerHost, {frame.header(), Bytes::FromString(std::move(payload))});
  }

 private:
  struct Memory : dataflow::Operator {
    explicit Memory(int devices) : devices(devices) {}
    void OnInputsClosed(dataflow::Shard& shard) override {
      ::pathways::v1::MemoryReport report;
      for (int d = 0; d < devices; ++d) report.add_devices()->set_used_bytes(100 + d);
      for (dataflow::EdgeId edge : shard.outputs())
        shard.Send(edge, shard.index(), {Bytes::FromString(report.SerializeAsString()), absl::OkStatus()});
      shard.Finish();
    }
    const int devices;
  };
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
  // Executor: only for what a coordinator does, which this is not.
  void Post(Task) override { PW_CHECK(false); }

  const SendEvent send_;
  SteadyClock clock_;
  dataflow::Operators operators_;
  Handler* handler_ = nullptr;
  std::unique_ptr<dataflow::Runtime> runtime_;
};

}  // namespace pw::controller
