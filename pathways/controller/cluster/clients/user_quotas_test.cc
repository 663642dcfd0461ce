#include "pathways/controller/cluster/clients/user_quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UserQuotasTest : public ::testing::Test {
 protected:
  // Asks for a session; returns the handle that its client holds while it waits.
  std::shared_ptr<bool> Ask(const std::string& user) {
    auto client = std::make_shared<bool>(true);
    const SessionId id(next_++);
    quotas_.Ask({user, "a program", client, [this, id](const std::string& why) { told_[id].push_back(why); },
                 [this, id, user] {
                   opened_.push_back(id);
                   quotas_.OnOpened(id, user);
                 }});
    return client;
  }
  void End(SessionId session) {
    quotas_.OnEnded(session);
    quotas_.Recheck();
  }
  std::vector<uint64_t> opened() const {
    std::vector<uint64_t> numbers;
    for (SessionId id : opened_) numbers.push_back(id.v);
    return numbers;
  }

  identity::QuotaTable table_;
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::map<SessionId, int64_t> slices_;  // the devices of each session's slices
  UserQuotas quotas_{{[this](const std::string& user) { return table_.Of(user); }, [this] { return now_; },
                      [this](SessionId session) { return slices_[session]; }},
                     {{"grace", 50}}};
  uint64_t next_ = 1;
  std::vector<SessionId> opened_;
  std::map<SessionId, std::vector<std::string>> told_;
};

TEST_F(UserQuotasTest, WithoutAQuotaSessionsOpenAtOnce) {
  for (int i = 0; i < 5; ++i) Ask("ada");
  EXPECT_THAT(opened(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(UserQuotasTest, OneMoreThanTheQuotaWaitsForAnEnd) {
  ASSERT_EQ(table_.Change("ada", {.sessions = 1}, {}), absl::OkStatus());
  const auto first = Ask("ada"), second = Ask("ada"), third = Ask("ada");
  const auto other = Ask("grace");
  EXPECT_THAT(opened(), ElementsAre(1, 4)) << "a user at its limit delays no other";
  EXPECT_THAT(told_[SessionId(2)], ElementsAre(AllOf(HasSubstr("the quota is 1"), HasSubstr("position 1"))));
  EXPECT_THAT(told_[SessionId(3)], ElementsAre(HasSubstr("position 2")));
  ASSERT_THAT(quotas_.queue(), SizeIs(2));
  EXPECT_EQ(quotas_.queue()[1].position, 2);
  End(SessionId(1));
  EXPECT_THAT(opened(), ElementsAre(1, 4, 2));
  EXPECT_THAT(told_[SessionId(3)], ElementsAre(HasSubstr("position 2"), HasSubstr("position 1")));
  quotas_.Recheck();
  EXPECT_THAT(told_[SessionId(3)], SizeIs(2)) << "nothing has changed";
}

TEST_F(UserQuotasTest, AClientThatHasGoneKeepsNobodyWaiting) {
  ASSERT_EQ(table_.Change("*", {.sessions = 1}, {}), absl::OkStatus());
  const auto first = Ask("ada");
  auto second = Ask("ada");
  const auto third = Ask("ada");
  second.reset();
  quotas_.Recheck();
  EXPECT_THAT(told_[SessionId(3)], ElementsAre(HasSubstr("position 2"), HasSubstr("position 1")));
  End(SessionId(1));
  EXPECT_THAT(opened(), ElementsAre(1, 3));
}

TEST_F(UserQuotasTest, ALargerQuotaLetsThoseInWhoWait) {
  ASSERT_EQ(table_.Change("ada", {.sessions = 0}, {}), absl::OkStatus());
  const auto first = Ask("ada"), second = Ask("ada");
  EXPECT_THAT(opened(), IsEmpty());
  ASSERT_EQ(table_.Change("ada", {}, {"all"}), absl::OkStatus());
  quotas_.Recheck();
  EXPECT_THAT(opened(), ElementsAre(1, 2));
  EXPECT_THAT(quotas_.queue(), IsEmpty());
}

TEST_F(UserQuotasTest, ASmallerQuotaEndsNoSession) {
  Ask("ada");
  Ask("ada");
  ASSERT_EQ(table_.Change("ada", {.sessions = 1}, {}), absl::OkStatus());
  const auto third = Ask("ada");
  End(SessionId(1));
  EXPECT_THAT(opened(), ElementsAre(1, 2)) << "one is still open";
  End(SessionId(2));
  EXPECT_THAT(opened(), ElementsAre(1, 2, 3));
}

TEST_F(UserQuotasTest, ASessionThatCannotBeOpenedTakesNoPlace) {
  ASSERT_EQ(table_.Change("ada", {.sessions = 1}, {}), absl::OkStatus());
  auto client = std::make_shared<bool>(true);
  bool failed = false;
  quotas_.Ask({"ada", "a program", client, nullptr, [&failed] { failed = true; }});
  EXPECT_TRUE(failed);
  const auto next = Ask("ada");
  EXPECT_THAT(opened(), ElementsAre(1));
}

TEST_F(UserQuotasTest, DeviceTimeIsCountedByDay) {
  Ask("ada");
  EXPECT_EQ(quotas_.Spent("ada"), absl::OkStatus());
  ASSERT_EQ(table_.Change("*", {.device_seconds = 100.0}, {}), absl::OkStatus());
  quotas_.CountDeviceSeconds(SessionId(1), 99);
  EXPECT_EQ(quotas_.Spent("ada"), absl::OkStatus());
  End(SessionId(1));
  quotas_.CountDeviceSeconds(SessionId(1), 1.5);  // its devices were still at work
  quotas_.CountDeviceSeconds(SessionId(2), 50);   // an operator's
  const absl::Status spent = quotas_.Spent("ada");
  EXPECT_EQ(spent.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(spent.message(), AllOf(HasSubstr("'ada' has used 100.5 device seconds today"), HasSubstr("until 00:00 UTC")));
  now_ += absl::Hours(24);
  EXPECT_EQ(quotas_.Spent("ada"), absl::OkStatus()) << "another day";
  now_ -= absl::Hours(24);
  EXPECT_EQ(quotas_.device_seconds("ada"), 0) << "a clock that is set back begins no day";
}

TEST_F(UserQuotasTest, UseBeforeTheControllerStartedCounts) {
  ASSERT_EQ(table_.Change("grace", {.device_seconds = 60.0}, {}), absl::OkStatus());
  EXPECT_EQ(quotas_.device_seconds("grace"), 50);
  Ask("grace");
  quotas_.CountDeviceSeconds(SessionId(1), 10);
  EXPECT_EQ(quotas_.Spent("grace").code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(UserQuotasTest, OnlySoManyEndedSessionsAreRemembered) {
  for (size_t i = 0; i <= UserQuotas::kRemembered; ++i) {
    Ask("ada");
    End(SessionId(i + 1));
  }
  quotas_.CountDeviceSeconds(SessionId(1), 100);
  EXPECT_EQ(quotas_.device_seconds("ada"), 0);
  quotas_.CountDeviceSeconds(SessionId(2), 100);
  EXPECT_EQ(quotas_.device_seconds("ada"), 100);
}

TEST_F(UserQuotasTest, AUserUsesNoMoreDevicesThanTheQuota) {
  const auto use = [this](uint64_t session, std::vector<int> devices) {
    std::vector<DeviceId> ids;
    for (int device : devices) ids.push_back(DeviceId(device));
    return quotas_.UseDevices(SessionId(session), ids);
  };
  Ask("ada");
  Ask("ada");
  Ask("bob");
  ASSERT_EQ(table_.Change("ada", {.devices = 3}, {}), absl::OkStatus());
  EXPECT_EQ(use(1, {0, 1}), absl::OkStatus());
  EXPECT_EQ(use(2, {1, 2}), absl::OkStatus()) << "both use device 1";
  EXPECT_EQ(quotas_.devices("ada"), 3);
  const absl::Status refused = use(1, {2, 3});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("user 'ada' has 3 devices in use and would have 4 with device 2,3"),
                                       HasSubstr("the quota is 3"), HasSubstr("pathways quota set --devices")));
  EXPECT_EQ(use(1, {2}), absl::OkStatus()) << "the user has it already";
  EXPECT_EQ(use(3, {0, 1, 2, 3}), absl::OkStatus()) << "bob has no limit";
  EXPECT_EQ(use(9, {4}), absl::OkStatus()) << "an operator's session";
  End(SessionId(2));
  EXPECT_EQ(quotas_.devices("ada"), 3) << "session 1 uses all three";
  End(SessionId(1));
  EXPECT_EQ(quotas_.devices("ada"), 0);
}

TEST_F(UserQuotasTest, ASliceBeyondTheQuotaWaitsOrNeverFits) {
  using What = resource::QuotaRoom::What;
  Ask("ada");
  Ask("ada");
  EXPECT_EQ(quotas_.RoomFor(SessionId(1), 100).what, What::kNow);
  ASSERT_EQ(table_.Change("ada", {.devices = 4}, {}), absl::OkStatus());
  slices_[SessionId(1)] = 2;
  ASSERT_EQ(quotas_.UseDevices(SessionId(2), {DeviceId(7)}), absl::OkStatus());
  EXPECT_EQ(quotas_.devices("ada"), 3);
  EXPECT_EQ(quotas_.RoomFor(SessionId(2), 1).what, What::kNow);
  EXPECT_EQ(quotas_.RoomFor(SessionId(2), 2).what, What::kLater);
  EXPECT_EQ(quotas_.RoomFor(SessionId(2), 2).why, "2 devices of the 4 that user 'ada' may have at a time, of which 3 are in use");
  EXPECT_EQ(quotas_.RoomFor(SessionId(2), 5).what, What::kNever);
  EXPECT_THAT(quotas_.RoomFor(SessionId(2), 5).why, HasSubstr("may have 4 devices at a time, and this slice has 5"));
  EXPECT_EQ(quotas_.RoomFor(SessionId(9), 50).what, What::kNow) << "an operator's session";
}

TEST_F(UserQuotasTest, SharesStayWithinTheQuota) {
  ASSERT_EQ(table_.Change("ada", {.weight = 0.5, .priority = 2}, {}), absl::OkStatus());
  EXPECT_EQ(quotas_.Lowered("ada", {}), (gang::Share{0.5, 0})) << "the default weight is above the quota";
  EXPECT_EQ(quotas_.Lowered("ada", {0.25, 3}), (gang::Share{0.25, 2}));
  EXPECT_EQ(quotas_.CheckShare("ada", {0.5, 2}), absl::OkStatus());
  const absl::Status heavy = quotas_.CheckShare("ada", {1, 0});
  EXPECT_EQ(heavy.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(heavy.message(), HasSubstr("more than user 'ada' may have: at most 0.5 and 0"));
  EXPECT_EQ(quotas_.CheckShare("ada", {0.5, 3}).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(quotas_.Lowered("grace", {8, 9}), (gang::Share{8, 9}));
}

}  // namespace
}  // namespace pw::controller
