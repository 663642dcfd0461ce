#include "pathways/worker/store/accounts.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using HostConfig = pathways::v1::HostConfig;

HostConfig::Account MakeAccount(const std::string& user, const std::vector<uint64_t>& sessions, int64_t device_bytes) {
  HostConfig::Account account;
  account.set_user(user);
  for (uint64_t session : sessions) account.add_sessions(session);
  account.set_device_bytes(device_bytes);
  return account;
}

struct Told {
  void Set(const std::vector<HostConfig::Account>& all) {
    HostConfig config;
    for (const auto& account : all) *config.add_accounts() = account;
    accounts.Set(
        config, [this](SessionId session) { return holding.contains(session); },
        [this](SessionId session) { return ended.contains(session); });
  }
  std::set<SessionId> holding, ended;
  Accounts accounts;
};

TEST(Accounts, ASessionIsInTheAccountOfItsUser) {
  Told told;
  EXPECT_EQ(told.accounts.Of(SessionId(1)), nullptr);
  told.Set({MakeAccount("ada", {1, 2}, 100), MakeAccount("bob", {3, 2}, 200)});
  EXPECT_EQ(told.accounts.Of(SessionId(1))->user, "ada");
  EXPECT_EQ(told.accounts.Of(SessionId(2))->user, "ada") << "the first that names it";
  EXPECT_EQ(told.accounts.Of(SessionId(3))->device_bytes, 200);
  EXPECT_FALSE(told.accounts.Of(SessionId(3))->python_processes.has_value());
  EXPECT_EQ(told.accounts.Of(SessionId(4)), nullptr);
}

TEST(Accounts, ASessionThatHasEndedStaysWhileItHoldsMemory) {
  Told told;
  told.Set({MakeAccount("ada", {1, 2}, 100)});
  told.holding = told.ended = {SessionId(1)};
  told.Set({MakeAccount("ada", {3}, 50)});
  EXPECT_THAT(told.accounts.Of(SessionId(3))->sessions, ElementsAre(SessionId(1), SessionId(3)));
  EXPECT_EQ(told.accounts.Of(SessionId(2)), nullptr);
  told.Set({});
  ASSERT_NE(told.accounts.Of(SessionId(1)), nullptr);
  EXPECT_EQ(told.accounts.Of(SessionId(1))->device_bytes, 50) << "the last limit, for commands under way";
  told.Set({MakeAccount("ada", {4}, 60)});
  EXPECT_THAT(told.accounts.Of(SessionId(4))->sessions, ElementsAre(SessionId(1), SessionId(4)));
  told.holding = {};
  told.Set({});
  EXPECT_THAT(told.accounts.all(), IsEmpty());
}

TEST(Accounts, AnOpenSessionWhoseUserHasNoLimitsAnyMoreIsFree) {
  Told told;
  told.Set({MakeAccount("ada", {1, 2}, 100)});
  told.holding = {SessionId(1), SessionId(2)};
  told.ended = {SessionId(2)};
  told.Set({});
  EXPECT_EQ(told.accounts.Of(SessionId(1)), nullptr);
  EXPECT_EQ(told.accounts.Of(SessionId(2))->device_bytes, 100);
}

}  // namespace
}  // namespace pw::worker
