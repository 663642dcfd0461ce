// FakeWorker's connections: how it joins, and how it comes back.
#include "absl/strings/str_cat.h"
#include "pathways/controller/testing/fake_worker.h"

namespace pw::controller {

namespace v1 = ::pathways::v1;

void FakeWorker::Join(net::Transport* transport, const std::string& address) {
  transport->Connect(address, absl::Seconds(1), [this](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
    if (!connection.ok()) {
      closed = true;
      close_reason = connection.status();
      return;
    }
    connection_ = *std::move(connection);
    connection_->Start(this);
    v1::FromWorker message;
    auto& hello = *message.add_events()->mutable_hello();
    hello.set_protocol_version(options_.protocol_version);
    hello.set_host_name(options_.name);
    hello.set_island(options_.island);
    hello.set_process_address(options_.process_address);
    hello.set_token(options_.token);
    hello.set_public_key(options_.public_key);
    if (options_.former.has_value()) *hello.mutable_former() = *options_.former;
    hello.set_epoch(options_.epoch);
    hello.set_last_launch(options_.last_launch);
    hello.set_data_address("tcp:" + options_.name + ":1");
    hello.set_pid(4242);
    hello.set_platform_name(options_.platform);
    hello.set_platform_version("fake");
    hello.set_stablehlo_version(options_.stablehlo_version);
    for (int d = 0; d < options_.devices; ++d) {
      auto& device = *hello.add_devices();
      device.set_kind(options_.kind);
      device.set_local_hardware_id(d);
      device.set_to_string(absl::StrCat("FakeDevice(id=", d, ")"));
      device.set_debug_string(d % 2 == 0 ? "id=" : "fake");
      for (const char* kind : {"device", "pinned_host"}) device.add_memories()->set_kind(kind);
    }
    SendBeside(message);
  });
}

void FakeWorker::Break() {
  connection_ = nullptr;
  stream_->Lose();
}

void FakeWorker::ComeBack(net::Transport* transport, const std::string& address) {
  closed = false;
  transport->Connect(address, absl::Seconds(1), [this](absl::StatusOr<std::unique_ptr<net::Connection>> connection) {
    connection_ = *std::move(connection);
    connection_->Start(this);
    v1::FromWorker message;
    auto& resume = *message.add_events()->mutable_resume();
    resume.set_host(welcome.host());
    resume.set_key(welcome.key());
    resume.set_epoch(welcome.epoch());
    resume.mutable_received()->set_urgent(stream_->received().urgent);
    resume.mutable_received()->set_bulk(stream_->received().bulk);
    SendBeside(message);
  });
}

void FakeWorker::SendBeside(const v1::FromWorker& message) {
  v1::FromWorker beside = message;
  beside.set_beside(true);
  if (!silent) connection_->Send(beside.SerializeAsString());
}

void FakeWorker::Die() { connection_->Close(absl::UnavailableError("died")); }

}  // namespace pw::controller
