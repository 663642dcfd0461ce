// Fuzzes connections of the session protocol from a hostile client. Each input is a list of frames, each after its length in two bytes. The
// first frame is a good hello; the cluster has no workers.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "pathways/frontend/testing/fake_cluster.h"
#include "pathways/net/in_memory/memory_transport.h"
#include "pathways/session/service.h"

namespace {

class NoTimers final : public pw::Timers {
 public:
  void After(absl::Duration, pw::Executor*, pw::Task) override {}
};

// Fails on a controller's frame that a client cannot read.
class Client final : public pw::net::Connection::Handler {
 public:
  void OnFrame(pw::net::Frame raw) override {
    ::pathways::v1::ControllerFrame frame;
    if (!frame.ParseFromString(raw.header) || !pw::session::SplitPayload(frame, raw.payload).ok()) __builtin_trap();
  }
  void OnClosed(const absl::Status&) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pw::frontend::testing::FakeCluster cluster;
  NoTimers timers;
  pw::net::MemoryNetwork network;
  pw::net::MemoryTransport transport(&network, &cluster);
  pw::session::SessionService::Options options;
  options.make_key = [] { return std::string("key"); };
  const auto service = pw::session::SessionService::Create(std::move(options), {&cluster, &timers});
  const auto address = service->Listen(&transport, "tcp:sessions:0");
  if (!address.ok()) __builtin_trap();
  Client client;
  std::unique_ptr<pw::net::Connection> connection;
  transport.Connect(*address, absl::Seconds(1), [&](auto connected) {
    connection = *std::move(connected);
    connection->Start(&client);
  });
  cluster.RunAll();
  ::pathways::v1::ClientFrame hello;
  hello.mutable_hello()->set_version(1);
  connection->Send(hello.SerializeAsString());
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] | data[1] << 8, size - 2);
    connection->Send(std::string(reinterpret_cast<const char*>(data + 2), length));
    cluster.RunAll();
    data += 2 + length;
    size -= 2 + length;
  }
  service->Stop(absl::OkStatus());
  cluster.RunAll();
  connection = nullptr;
  cluster.RunAll();
  if (!cluster.sessions.empty()) __builtin_trap();
  return 0;
}
