#include "pathways/relay/store_ahead.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <utility>

#include "pathways/bulk/shared_directory.h"
#include "pathways/relay/testing/bulk_controller.h"

namespace pw::relay {
namespace {

using pathways::v1::BulkFrame;

constexpr uint64_t kCall = 1;
constexpr size_t kSize = (5 << 20) + 3;

// Keeps what the controller says.
class Ear final : public bulk::Line::Owner {
 public:
  BulkFrame Next() {
    std::unique_lock<std::mutex> lock(mu_);
    came_.wait(lock, [&] { return !frames_.empty(); });
    BulkFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }

 private:
  void OnBulkFrame(BulkFrame frame) override {
    std::lock_guard<std::mutex> lock(mu_);
    frames_.push_back(std::move(frame));
    came_.notify_one();
  }
  void OnBulkClosed(const absl::Status&) override {}

  std::mutex mu_;
  std::condition_variable came_;
  std::deque<BulkFrame> frames_;
};

class StoreAheadTest : public ::testing::Test {
 protected:
  StoreAheadTest() {
    std::string name = "/dev/shm/pw-test-XXXXXX";
    path_ = mkdtemp(name.data());
    directory_ = *bulk::OpenSharedDirectory(path_);
    std::promise<std::unique_ptr<net::Connection>> connected;
    transport_.Connect(controller_.address(), absl::Seconds(10),
                       [&](auto connection) { connected.set_value(*std::move(connection)); });
    line_ = std::make_unique<bulk::Line>(connected.get_future().get(), &ear_);
    line_->Start();
    EXPECT_TRUE(ear_.Next().has_greeting());
    for (size_t i = 0; i < kSize; ++i) contents_.push_back(static_cast<char>(i % 251 + 1));
  }
  ~StoreAheadTest() override {
    close(directory_);
    std::filesystem::remove_all(path_);
  }

  std::string File() const { return path_ + "/lt_7"; }
  // The client has written so much.
  void Write(size_t bytes) {
    const size_t there = std::filesystem::exists(File()) ? std::filesystem::file_size(File()) : 0;
    std::ofstream(File(), std::ios::app) << contents_.substr(there, bytes - there);
  }
  StoreAhead Start(size_t size = kSize) {
    return StoreAhead(11, 7, *bulk::GrowingFile::In(directory_, "", 7, static_cast<int64_t>(size)), now_);
  }
  void Look(StoreAhead& ahead) { ahead.Look(*line_, kCall, now_); }
  // The controller's next word.
  void Hear(StoreAhead& ahead) {
    const BulkFrame frame = ear_.Next();
    EXPECT_EQ(frame.call(), kCall);
    frame.has_ready() ? ahead.Ready(*line_, kCall) : ahead.Ended(bulk::StatusOf(frame.done()));
  }
  // Up to where its contents are being sent.
  StoreAhead StartSending() {
    StoreAhead ahead = Start();
    Write(2 << 20);
    Look(ahead);
    Hear(ahead);
    Look(ahead);
    return ahead;
  }
  void Whole(StoreAhead& ahead, size_t bytes = kSize) {
    ahead.Whole(*line_, kCall, static_cast<int64_t>(bytes),
                {[this](absl::Status status) { heard_ += status.ToString(); }, [this] { heard_ += "otherwise"; }});
  }

  std::string path_, contents_;
  int directory_;
  absl::Time now_ = absl::UnixEpoch();
  std::string heard_;  // by the client
  testing::BulkController controller_{kSize};
  Ear ear_;
  std::unique_ptr<bulk::Line> line_;
  net::AsioTransport transport_;  // last: no callback runs once it has gone
};

TEST_F(StoreAheadTest, WhatHasBeenWrittenIsSentAndTheRestFollows) {
  StoreAhead ahead = Start();
  Look(ahead);
  Write(2 << 20);
  Look(ahead);  // asks
  Hear(ahead);
  Look(ahead);
  Write(4 << 20);
  Look(ahead);
  Write(kSize);
  Look(ahead);
  EXPECT_EQ(heard_, "");
  Whole(ahead);
  Look(ahead);
  Hear(ahead);
  EXPECT_EQ(heard_, "OK");
  EXPECT_TRUE(ahead.over());
  EXPECT_TRUE(controller_.stored() == contents_);
  EXPECT_FALSE(std::filesystem::exists(File()));
}

TEST_F(StoreAheadTest, AFileThatIsWholeBeforeItIsSeenGrowingGoesTheOrdinaryWay) {
  StoreAhead ahead = Start();
  Write(kSize);
  Whole(ahead);
  EXPECT_EQ(heard_, "otherwise");
  EXPECT_TRUE(ahead.over());
  EXPECT_EQ(controller_.stores, 0);
}

TEST_F(StoreAheadTest, AFileThatIsCutShortIsWithdrawnFirst) {
  StoreAhead ahead = StartSending();
  std::filesystem::resize_file(File(), 1);
  Whole(ahead);
  Look(ahead);
  EXPECT_EQ(heard_, "") << "the controller has some of it";
  Hear(ahead);
  EXPECT_EQ(heard_, "otherwise");
  EXPECT_TRUE(ahead.over());
  EXPECT_TRUE(std::filesystem::exists(File()));
}

TEST_F(StoreAheadTest, AFileThatIsShortInTheEndIsWithdrawnFirst) {
  StoreAhead ahead = StartSending();
  Whole(ahead);
  Look(ahead);
  Hear(ahead);
  EXPECT_EQ(heard_, "otherwise");
}

TEST_F(StoreAheadTest, AnotherSizeThanWasExpectedIsWithdrawnFirst) {
  StoreAhead ahead = StartSending();
  Whole(ahead, 2 << 20);
  EXPECT_EQ(heard_, "");
  Hear(ahead);
  EXPECT_EQ(heard_, "otherwise");
}

TEST_F(StoreAheadTest, AFileThatGoesIsWithdrawn) {
  StoreAhead ahead = StartSending();
  std::filesystem::remove(File());
  Look(ahead);
  Hear(ahead);
  EXPECT_TRUE(ahead.over());
}

TEST_F(StoreAheadTest, AFileThatStandsStillIsWithdrawnAfterAWhile) {
  StoreAhead waits = Start();
  now_ += StoreAhead::kPatience;
  Look(waits);
  EXPECT_FALSE(waits.over());
  now_ += absl::Seconds(1);
  Look(waits);
  EXPECT_TRUE(waits.over()) << "it has never come";

  StoreAhead ahead = StartSending();
  Write(kSize);
  Look(ahead);  // all is sent
  now_ += StoreAhead::kPatience + absl::Seconds(1);
  Look(ahead);
  Whole(ahead);  // now the client goes on after all
  Hear(ahead);
  EXPECT_EQ(heard_, "otherwise");
}

TEST_F(StoreAheadTest, ASlowClientThatSaysThatItHasWrittenIsNotLate) {
  StoreAhead ahead = StartSending();
  Write(kSize);
  Whole(ahead);
  now_ += StoreAhead::kPatience + absl::Seconds(1);
  Look(ahead);
  Hear(ahead);
  EXPECT_EQ(heard_, "OK");
}

TEST_F(StoreAheadTest, WhatTheControllerRefusesTheClientHearsOnceItHasWritten) {
  StoreAhead ahead = Start(kSize + 1);
  Write(2 << 20);
  Look(ahead);
  Hear(ahead);
  Look(ahead);
  EXPECT_FALSE(ahead.over());
  Whole(ahead);
  EXPECT_EQ(heard_, "RESOURCE_EXHAUSTED: no room");
  EXPECT_TRUE(ahead.over());
}

TEST_F(StoreAheadTest, WithoutALineThereIsTheOtherWay) {
  StoreAhead nobody_waits = StartSending();
  nobody_waits.Lose();
  EXPECT_TRUE(nobody_waits.over());
  StoreAhead ahead = Start();
  Look(ahead);
  Whole(ahead);
  ahead.Lose();
  EXPECT_EQ(heard_, "otherwise");
}

TEST_F(StoreAheadTest, ASessionThatEndsFreesTheControllersMemory) {
  StoreAhead unasked = Start();
  unasked.Drop(*line_, kCall);
  EXPECT_TRUE(unasked.over());
  StoreAhead ahead = Start();
  Write(2 << 20);
  Look(ahead);
  ahead.Drop(*line_, kCall);
  Hear(ahead);  // ready, which it may not be told to end before
  EXPECT_FALSE(ahead.over());
  Hear(ahead);
  EXPECT_TRUE(ahead.over());
}

}  // namespace
}  // namespace pw::relay
