#include "pathways/bulk/line.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "pathways/net/asio_transport.h"
#include "pathways/net/shared_memory.h"

namespace pw::bulk {
namespace {

using pathways::v1::BulkFrame;

// Keeps what it hears.
class Ear final : public Line::Owner {
 public:
  BulkFrame Next() {
    BulkFrame frame = frames_.get_future().get();
    frames_ = {};
    return frame;
  }
  absl::Status Closed() { return closed_.get_future().get(); }

 private:
  void OnBulkFrame(BulkFrame frame) override { frames_.set_value(std::move(frame)); }
  void OnBulkClosed(const absl::Status& reason) override { closed_.set_value(reason); }

  std::promise<BulkFrame> frames_;  // one at a time
  std::promise<absl::Status> closed_;
};

class LineTest : public ::testing::Test {
 protected:
  LineTest() {
    net::AsioOptions options;
    options.limits = LineLimits();
    transport_ = std::make_unique<net::AsioTransport>(options);
    std::promise<std::unique_ptr<net::Connection>> accepted, connected;
    auto listener = transport_->Listen("127.0.0.1:0", [&](auto connection) { accepted.set_value(std::move(connection)); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    transport_->Connect((*listener)->address(), absl::Seconds(10),
                        [&](auto connection) { connected.set_value(*std::move(connection)); });
    raw_ = connected.get_future().get();
    there_ = std::make_unique<Line>(accepted.get_future().get(), &ear_);
    there_->Start();
  }
  ~LineTest() override { transport_ = nullptr; }

  void MakeHere() {
    here_ = std::make_unique<Line>(std::move(raw_), &here_ear_);
    here_->Start();
  }

  Ear ear_, here_ear_;
  std::unique_ptr<net::AsioTransport> transport_;
  std::unique_ptr<net::Connection> raw_;
  std::unique_ptr<Line> here_, there_;
};

TEST_F(LineTest, WhatIsExpectedLandsWholeBeforeTheEndOfItsCall) {
  MakeHere();
  AlignedBytes data((size_t{20} << 20) + 3), into(data.size());
  std::iota(data.data(), data.data() + data.size(), 0);
  there_->Expect(7, {into.owner(), into.data()}, into.size());
  const Bytes sent = Bytes::Copy({reinterpret_cast<const char*>(data.data()), data.size()});
  here_->SendParts(7, sent);
  here_->SendDone(7, absl::OkStatus());
  EXPECT_EQ(ear_.Next().call(), 7u);
  EXPECT_TRUE(there_->Landed(7, into.size()).ok());
  EXPECT_EQ(std::move(into).Freeze().view(), sent.view());
}

TEST_F(LineTest, SharedMemoryIsFilledWhetherOrNotItHasPages) {
  MakeHere();
  net::SharedMemoryFactory factory(2, {.always = size_t{64} << 20});
  const size_t size = (size_t{3} << 20) + 5;  // not a multiple of a part
  uint64_t inode = 0;
  for (const char letter : {'a', 'b'}) {
    net::SharedMemory memory = *factory.Create(size);
    EXPECT_EQ(memory.place().file >= 0, letter == 'a') << "the second has pages";
    there_->Expect(1, memory.place(), size);
    const std::string sent(size, letter);
    here_->SendParts(1, Bytes::Copy(sent));
    here_->SendDone(1, absl::OkStatus());
    EXPECT_EQ(ear_.Next().call(), 1u);
    EXPECT_TRUE(there_->Landed(1, size).ok());
    const Bytes filled = std::move(memory).Freeze();
    EXPECT_TRUE(filled.view() == sent);
    if (letter == 'b') {
      EXPECT_EQ(net::NameOf(filled)->inode, inode);
    }
    inode = net::NameOf(filled)->inode;
  }
}

TEST_F(LineTest, WhatNobodyExpectsOrIsTooMuchIsDropped) {
  MakeHere();
  AlignedBytes into(4);
  std::fill_n(into.data(), 4, 'x');
  there_->Expect(1, {into.owner(), into.data()}, 4);
  here_->SendParts(2, Bytes::Copy("abcd"));
  here_->SendParts(1, Bytes::Copy("too long"));
  here_->SendDone(1, absl::NotFoundError("gone"));
  EXPECT_EQ(StatusOf(ear_.Next().done()), absl::NotFoundError("gone"));
  EXPECT_EQ(there_->Landed(1, 4).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(std::move(into).Freeze().view(), "xxxx");
}

TEST_F(LineTest, WhatDoesNotParseEndsTheLine) {
  class Deaf final : public net::Connection::Handler {
    void OnFrame(net::Frame) override {}
    void OnClosed(const absl::Status&) override {}
  } deaf;
  raw_->Start(&deaf);
  raw_->Send("\xff\xff", net::Lane::kBulk);
  EXPECT_EQ(ear_.Closed().code(), absl::StatusCode::kInvalidArgument);
  raw_ = nullptr;
}

TEST_F(LineTest, ACodeThatIsNoneIsUnknown) {
  BulkFrame::Done done;
  done.set_code(99);
  EXPECT_EQ(StatusOf(done).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace pw::bulk
