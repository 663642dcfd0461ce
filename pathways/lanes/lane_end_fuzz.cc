// Fuzzes a worker's end of a lane as a hostile client may write to it. Each input is a list of frames, each after its length in
// two bytes. The second half of a frame is its payload. The lane is open already.
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "pathways/base/threads/executor.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/lanes/receiver.h"
#include "pathways/net/in_memory/memory_transport.h"

namespace {

class Tasks final : public pw::Executor {
 public:
  void Post(pw::Task task) override { queue_.push_back(std::move(task)); }
  void RunAll() {
    for (; !queue_.empty(); queue_.pop_front()) std::move(queue_.front())();
  }

 private:
  std::deque<pw::Task> queue_;
};

constexpr size_t kExpected = 100;

// Accepts well-formed parts of two expected names. Checks that complete bytes have come whole, once.
class Worker final : public pw::lanes::LaneEnd::Owner {
 public:
  Worker() {
    for (uint64_t name : {1, 2}) receiver.Expect(name, pw::AlignedBytes(kExpected));
  }
  void OnLaneMessage(pw::lanes::LaneId, ::pathways::v1::LaneMessage message, pw::Bytes payload) override {
    if (closed) __builtin_trap();
    if (!message.has_bytes()) return;
    const uint64_t name = pw::lanes::NameOf(message.bytes());
    const size_t before = receiver.received(name);
    const auto complete = receiver.Add(name, message.bytes().offset(), message.bytes().total_bytes(), std::move(payload));
    if (!complete.ok() && receiver.received(name) != before) __builtin_trap();
    if (complete.ok() && *complete && receiver.Take(name).size() != kExpected) __builtin_trap();
  }
  void OnLaneWritable(pw::lanes::LaneId) override {}
  void OnLaneClosed(pw::lanes::LaneId, const absl::Status&) override {
    if (std::exchange(closed, true)) __builtin_trap();
  }
  pw::lanes::Receiver receiver;
  bool closed = false;
};

class Client final : public pw::net::Connection::Handler {
 public:
  void OnFrame(pw::net::Frame) override { __builtin_trap(); }  // the worker answers no frame
  void OnClosed(const absl::Status&) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Tasks tasks;
  Worker worker;
  Client client;
  pw::net::MemoryNetwork network;
  pw::net::MemoryTransport transport(&network, &tasks);
  std::unique_ptr<pw::lanes::LaneEnd> lane;
  const auto listener = transport.Listen("tcp:lanes:0", [&](std::unique_ptr<pw::net::Connection> connection) {
    auto post = [&](absl::AnyInvocable<void(pw::lanes::LaneEnd::Owner&)&&> task) { std::move(task)(worker); };
    lane = std::make_unique<pw::lanes::LaneEnd>(1, std::move(connection), post);
    lane->Open(worker.receiver.receive_buffers());
    lane->Start();
  });
  std::unique_ptr<pw::net::Connection> connection;
  transport.Connect((*listener)->address(), absl::Seconds(1), [&](auto connected) {
    connection = *std::move(connected);
    connection->Start(&client);
  });
  tasks.RunAll();
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] | data[1] << 8, size - 2);
    const auto* text = reinterpret_cast<const char*>(data + 2);
    connection->Send(std::string(text, length / 2), {pw::Bytes::Copy({text + length / 2, length - length / 2})},
                     pw::net::Lane::kBulk);
    tasks.RunAll();
    data += 2 + length;
    size -= 2 + length;
  }
  connection = nullptr;
  tasks.RunAll();
  lane = nullptr;
  tasks.RunAll();
  return 0;
}
