#include "pathways/worker/transfer/staging.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::worker {
namespace {

using ::testing::HasSubstr;

class StagingTest : public ::testing::Test {
 protected:
  // Adds the first byte of a transfer of `total` bytes, and returns the error of the transfer.
  absl::Status Begin(uint64_t session, int64_t total) {
    pathways::v1::Chunk chunk;
    chunk.set_transfer(next_++);
    chunk.set_session(session);
    chunk.set_total_bytes(total);
    staging_.AddChunk(chunk, Bytes::FromString("x"));
    if (staging_.staged_bytes() > kLimit) ADD_FAILURE() << staging_.staged_bytes();
    auto failed = std::make_shared<absl::Status>();
    staging_.Expect(chunk.transfer(), total, SessionId(session), HostId(),
                    [failed](absl::StatusOr<Bytes> result) { *failed = result.status(); });
    return *failed;
  }
  // Begins transfers of 100 bytes until one fails; returns how many bytes the others have.
  int64_t Fill(uint64_t session) {
    int64_t bytes = 0;
    while (Begin(session, 100).ok()) bytes += 100;
    return bytes;
  }
  // Says that these sessions are of a user with limits.
  void Own(const std::string& user, const std::vector<uint64_t>& sessions) {
    pathways::v1::HostConfig config;
    auto& account = *config.add_accounts();
    account.set_user(user);
    for (uint64_t session : sessions) account.add_sessions(session);
    accounts_.Set(config, [](SessionId) { return true; }, [](SessionId) { return false; });
  }

  static constexpr int64_t kLimit = 4000;
  BlockCache blocks_;
  Accounts accounts_;
  Staging staging_{&blocks_, kLimit, &accounts_};
  uint64_t next_ = 1;
};

TEST_F(StagingTest, WhoTakesAllThatIsToBeHadLeavesRoomForOthers) {
  EXPECT_EQ(Fill(1), 3000);
  EXPECT_EQ(Fill(2), 700) << "three times what is left";
  EXPECT_GT(Fill(3), 0);
  staging_.ReleaseOwner(SessionId(1), absl::CancelledError("it has ended"));
  EXPECT_GT(Fill(2), 1000) << "room that others have given back";
}

TEST_F(StagingTest, SessionsOfAUserShareOnePart) {
  Own("ada", {1, 2, 3});
  EXPECT_EQ(Fill(1), 3000);
  EXPECT_EQ(Fill(2) + Fill(3), 0);
  EXPECT_EQ(Fill(4), 700);
}

TEST_F(StagingTest, ATransferThatDoesNotFitSaysWhatToDo) {
  EXPECT_EQ(Begin(1, kLimit).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Begin(1, kLimit).message()), HasSubstr("raise --staging-limit"));
  EXPECT_EQ(staging_.staged_bytes(), 0);
}

}  // namespace
}  // namespace pw::worker
