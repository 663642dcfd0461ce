#include "pathways/frontend/bulk_lines.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_split.h"

#include "pathways/bulk/line.h"
#include "pathways/frontend/testing/server_test_base.h"

namespace pw::frontend {
namespace {

using pathways::v1::BulkFrame;

// A relay's end.
class Relay final : public bulk::Line::Owner {
 public:
  explicit Relay(const std::string& announcement) {
    const std::pair<std::string, std::string> told = absl::StrSplit(announcement, absl::MaxSplits(' ', 1));
    std::promise<std::unique_ptr<net::Connection>> connected;
    transport_.Connect(absl::StrCat("127.0.0.1:", told.first), absl::Seconds(10),
                       [&](auto connection) { connected.set_value(*std::move(connection)); });
    line_ = std::make_unique<bulk::Line>(connected.get_future().get(), this);
    line_->Start();
    EXPECT_EQ(Next().greeting().secret(), told.second);
    EXPECT_GE(told.second.size(), 24u);
  }

  bulk::Line& line() { return *line_; }
  void Store(uint64_t call, uint64_t session, uint64_t handle, uint64_t bytes) {
    BulkFrame frame;
    frame.set_call(call);
    frame.mutable_store()->set_session(session);
    frame.mutable_store()->set_handle(handle);
    frame.mutable_store()->set_bytes(bytes);
    line_->Send(frame);
  }
  void Fetch(uint64_t call, uint64_t session, uint64_t handle) {
    BulkFrame frame;
    frame.set_call(call);
    frame.mutable_fetch()->set_session(session);
    frame.mutable_fetch()->set_handle(handle);
    line_->Send(frame);
  }
  // The next frame, or one without a kind if the line has closed.
  BulkFrame Next() {
    std::unique_lock<std::mutex> lock(mu_);
    wake_.wait(lock, [this] { return !frames_.empty() || closed_; });
    if (frames_.empty()) return BulkFrame();
    BulkFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  absl::Status NextDone() { return bulk::StatusOf(Next().done()); }

 private:
  void OnBulkFrame(BulkFrame frame) override {
    std::lock_guard<std::mutex> lock(mu_);
    frames_.push_back(std::move(frame));
    wake_.notify_all();
  }
  void OnBulkClosed(const absl::Status&) override {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    wake_.notify_all();
  }

  std::mutex mu_;
  std::condition_variable wake_;
  std::deque<BulkFrame> frames_;
  bool closed_ = false;
  std::unique_ptr<bulk::Line> line_;
  net::AsioTransport transport_;
};

class BulkLinesTest : public ServerTest {
 protected:
  BulkLinesTest() {
    ServerOptions options;
    options.bulk_address = "127.0.0.1:0";
    Start(options);
    stream_ = Open();
    session_ = stream_->Init();
    relay_ = std::make_unique<Relay>(server_->bulk_line());
  }
  ~BulkLinesTest() override { relay_ = nullptr; }

  std::unique_ptr<Stream> stream_;
  uint64_t session_ = 0;
  std::unique_ptr<Relay> relay_;
};

TEST_F(BulkLinesTest, WhatIsStoredCanBeFetchedOverTheLineAndThroughGrpc) {
  const std::string data(3 << 20, 'd');
  relay_->Store(1, session_, 5, data.size());
  ASSERT_TRUE(relay_->Next().has_ready());
  relay_->line().SendParts(1, Bytes::Copy(data));
  relay_->line().SendDone(1, absl::OkStatus());
  EXPECT_TRUE(relay_->NextDone().ok());

  AlignedBytes into(data.size());
  relay_->line().Expect(2, {into.owner(), into.data()}, into.size());
  relay_->Fetch(2, session_, 5);
  EXPECT_TRUE(relay_->NextDone().ok());
  EXPECT_TRUE(relay_->line().Landed(2, data.size()).ok());
  EXPECT_EQ(std::move(into).Freeze().view(), data);
  std::string other;
  int messages;
  EXPECT_TRUE(Lookup(session_, 5, other, messages).ok());
  EXPECT_EQ(other, data);
}

TEST_F(BulkLinesTest, NothingComesBeforeThereIsRoomForIt) {
  OnStrand([this] { return TheSession().full = true; });
  relay_->Store(1, session_, 5, 10);
  EXPECT_TRUE(Eventually([this] { return TheSession().waiting.contains(5); }));
  EXPECT_TRUE(OnStrand([this] { return Admit(5); }));
  EXPECT_TRUE(relay_->Next().has_ready());
}

TEST_F(BulkLinesTest, StrangersAndUnknownHandlesGetErrors) {
  relay_->Fetch(1, session_ + 1, 5);
  EXPECT_EQ(relay_->NextDone().code(), absl::StatusCode::kNotFound);
  relay_->Fetch(2, session_, 99);
  EXPECT_EQ(relay_->NextDone().code(), absl::StatusCode::kNotFound);
  relay_->Store(3, session_ + 1, 5, 10);
  EXPECT_EQ(relay_->NextDone().code(), absl::StatusCode::kNotFound);
}

TEST_F(BulkLinesTest, WhatIsOverTheLimitIsTheArraysErrorNotTheStores) {
  OnStrand([this] { return TheSession().staged_limit = 9; });
  relay_->Store(1, session_, 5, 10);
  EXPECT_TRUE(relay_->NextDone().ok());
  EXPECT_TRUE(OnStrand([this] { return absl::IsResourceExhausted(TheSession().failed[5]); }));
}

TEST_F(BulkLinesTest, AStoreThatEndsEarlyIsForgotten) {
  relay_->Store(1, session_, 5, 10);
  ASSERT_TRUE(relay_->Next().has_ready());
  relay_->line().SendParts(1, Bytes::Copy("half "));
  relay_->line().SendDone(1, absl::OkStatus());
  EXPECT_EQ(relay_->NextDone().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(OnStrand([this] { return TheSession().announced.empty(); }));
}

TEST_F(BulkLinesTest, AStoreThatIsWithdrawnIsForgottenThoughAllOfItHasCome) {
  for (const uint64_t call : {1, 2}) {
    relay_->Store(call, session_, 5, 5);
    ASSERT_TRUE(relay_->Next().has_ready());
    relay_->line().SendParts(call, Bytes::Copy("whole"));
    relay_->line().SendDone(call, call == 1 ? absl::CancelledError("withdrawn") : absl::OkStatus());
    EXPECT_EQ(relay_->NextDone().code(), call == 1 ? absl::StatusCode::kCancelled : absl::StatusCode::kOk);
  }
}

TEST_F(BulkLinesTest, ALineThatBreaksFreesItsHandles) {
  relay_->Store(1, session_, 5, 10);
  ASSERT_TRUE(relay_->Next().has_ready());
  relay_ = nullptr;
  EXPECT_TRUE(Eventually([this] { return TheSession().announced.empty(); }));
}

TEST_F(BulkLinesTest, WhatMakesNoSenseEndsTheLineAndNoSession) {
  relay_->line().SendDone(1, absl::OkStatus());
  EXPECT_EQ(relay_->Next().kind_case(), BulkFrame::KIND_NOT_SET);
  EXPECT_EQ(Sessions(), 1u);
  Relay second(server_->bulk_line());
  second.Store(1, session_, 5, 10);
  ASSERT_TRUE(second.Next().has_ready());
  second.Store(1, session_, 6, 10);
  EXPECT_EQ(second.Next().kind_case(), BulkFrame::KIND_NOT_SET);
}

}  // namespace
}  // namespace pw::frontend
