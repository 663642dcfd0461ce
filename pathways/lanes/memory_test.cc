// Lanes over real sockets, which hand over shared memory.
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/lanes/lane_end.h"
#include "pathways/lanes/receiver.h"
#include "pathways/lanes/sender.h"
#include "pathways/net/asio/asio_transport.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/net/testing.h"

namespace pw::lanes {
namespace {

constexpr size_t kLarge = size_t{3} << 20;

// Remembers the bytes that arrive. Any thread.
class Owner final : public LaneEnd::Owner {
 public:
  struct Part {
    uint64_t name, offset;
    Bytes data;
  };
  void OnLaneMessage(LaneId, ::pathways::v1::LaneMessage message, Bytes payload) override {
    const std::lock_guard<std::mutex> lock(mu_);
    parts_.push_back({NameOf(message.bytes()), message.bytes().offset(), std::move(payload)});
    changed_.notify_all();
  }
  void OnLaneWritable(LaneId) override {}
  void OnLaneClosed(LaneId, const absl::Status& reason) override {
    const std::lock_guard<std::mutex> lock(mu_);
    closed_ = reason;
    changed_.notify_all();
  }
  std::vector<Part> Wait(size_t count) {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, net::kPatience, [&] { return parts_.size() >= count || closed_.has_value(); }));
    return parts_;
  }
  absl::Status WaitClosed() {
    std::unique_lock<std::mutex> lock(mu_);
    EXPECT_TRUE(changed_.wait_for(lock, net::kPatience, [&] { return closed_.has_value(); }));
    return closed_.value_or(absl::OkStatus());
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Part> parts_;
  std::optional<absl::Status> closed_;
};

class LaneMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listener_ = *transport_.Listen("tcp:127.0.0.1:0", [this](auto connection) { accepted_.Put(std::move(connection)); });
    net::Mailbox<std::unique_ptr<net::Connection>> connected;
    transport_.Connect(listener_->address(), absl::Seconds(60), [&](auto connection) { connected.Put(*std::move(connection)); });
    client_ = Open(1, connected.Take(), &at_client_);
    worker_ = Open(2, accepted_.Take(), &at_worker_);
  }
  void ShareMemory() {
    files_ = *transport_.ListenForFiles();
    net::Mailbox<std::unique_ptr<net::FileSocket>> accepted;
    const std::string key = files_->Expect([&](std::unique_ptr<net::FileSocket> socket) { accepted.Put(std::move(socket)); });
    client_->ShareMemory(*transport_.ConnectForFiles(files_->address(), key));
    worker_->ShareMemory(accepted.Take());
  }
  Bytes Shared(size_t size, char letter) {
    net::SharedMemory memory = *factory_.Create(size);
    std::memset(memory.data(), letter, size);
    return std::move(memory).Freeze();
  }
  static std::unique_ptr<LaneEnd> Open(LaneId id, std::unique_ptr<net::Connection> connection, Owner* owner) {
    auto end = std::make_unique<LaneEnd>(id, std::move(connection),
                                         [owner](absl::AnyInvocable<void(LaneEnd::Owner&)&&> task) { std::move(task)(*owner); });
    end->Open(std::make_shared<net::ReceiveBuffers>());
    end->Start();
    return end;
  }

  Owner at_client_, at_worker_;
  net::SharedMemoryFactory factory_;
  net::Mailbox<std::unique_ptr<net::Connection>> accepted_;
  net::AsioTransport transport_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<net::FileListener> files_;
  std::unique_ptr<LaneEnd> client_, worker_;
  Sender buffers_{Sender::Names::kBuffers};
  Sender fetches_{Sender::Names::kFetches};
};

TEST_F(LaneMemoryTest, SharedMemoryIsHandedOverWhole) {
  ShareMemory();
  const Bytes up = Shared(kLarge, 'u'), down = Shared(kLarge, 'd');
  buffers_.Add(7, up.Slice(64, kLarge - 64), 0);
  buffers_.Pump(*client_);
  fetches_.Add(8, down, 0);
  fetches_.Pump(*worker_);
  const auto at_worker = at_worker_.Wait(1), at_client = at_client_.Wait(1);
  ASSERT_EQ(at_worker.size(), 1);
  EXPECT_EQ(at_worker[0].name, 7);
  EXPECT_EQ(at_worker[0].data.view(), std::string(kLarge - 64, 'u'));
  EXPECT_EQ(net::NameOf(at_worker[0].data)->inode, net::NameOf(up)->inode) << "the same pages";
  ASSERT_EQ(at_client.size(), 1);
  EXPECT_EQ(at_client[0].name, 8);
  EXPECT_EQ(net::NameOf(at_client[0].data)->inode, net::NameOf(down)->inode);
}

// A receiver gets all bytes in one part.
TEST_F(LaneMemoryTest, AReceiverTakesItForAllParts) {
  ShareMemory();
  const Bytes up = Shared(kLarge, 'u');
  Receiver receiver;
  receiver.Expect(7, AlignedBytes(kLarge));
  buffers_.Add(7, up, 0);
  buffers_.Pump(*client_);
  const auto parts = at_worker_.Wait(1);
  ASSERT_EQ(parts.size(), 1);
  EXPECT_THAT(receiver.Add(7, parts[0].offset, kLarge, parts[0].data).value(), true);
  EXPECT_EQ(net::NameOf(receiver.Take(7))->inode, net::NameOf(up)->inode);
}

TEST_F(LaneMemoryTest, WhatIsSmallOrBegunOrElsewhereComesInParts) {
  ShareMemory();
  buffers_.Add(1, Shared(1000, 'a'), 0);
  buffers_.Add(2, Shared(kLarge, 'b'), 10);
  buffers_.Add(3, Bytes::FromString(std::string(kPartBytes, 'c')), 0);
  buffers_.Pump(*client_);
  const auto parts = at_worker_.Wait(5);
  ASSERT_EQ(parts.size(), 5);
  for (const auto& part : parts) EXPECT_FALSE(net::NameOf(part.data).has_value());
}

TEST_F(LaneMemoryTest, ALaneWithoutMemorySendsParts) {
  buffers_.Add(1, Shared(kLarge, 'a'), 0);
  buffers_.Pump(*client_);
  EXPECT_EQ(at_worker_.Wait(3).size(), 3);
}

TEST_F(LaneMemoryTest, BothSocketsEndTogether) {
  ShareMemory();
  worker_ = nullptr;
  EXPECT_FALSE(at_client_.WaitClosed().ok());
}

TEST_F(LaneMemoryTest, APacketThatNamesNothingEndsTheLane) {
  files_ = *transport_.ListenForFiles();
  net::Mailbox<std::unique_ptr<net::FileSocket>> accepted;
  const std::string key = files_->Expect([&](std::unique_ptr<net::FileSocket> socket) { accepted.Put(std::move(socket)); });
  const auto hostile = *transport_.ConnectForFiles(files_->address(), key);
  worker_->ShareMemory(accepted.Take());
  ::pathways::v1::LaneMessage message;
  message.mutable_bytes()->set_buffer(1);
  message.mutable_bytes()->set_total_bytes(10);
  hostile->Send(message.SerializeAsString(), -1, nullptr);  // and has no file
  EXPECT_TRUE(absl::IsInvalidArgument(at_worker_.WaitClosed())) << at_worker_.WaitClosed();
}

}  // namespace
}  // namespace pw::lanes
