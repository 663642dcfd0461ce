#include "pathways/worker/store/host_quota.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Way = HostQuota::Way;

constexpr SessionId kOne(1), kTwo(2), kBobs(3);

struct Charged {
  Charged() {
    pathways::v1::HostConfig config;
    auto* ada = config.add_accounts();
    ada->set_user("ada");
    ada->add_sessions(kOne.v);
    ada->add_sessions(kTwo.v);
    ada->set_host_bytes(100);
    const auto none = [](SessionId) { return false; };
    accounts.Set(config, none, none);
  }
  Accounts accounts;
  HostQuota quota{&accounts};
};

TEST(HostQuota, TheSessionsOfAUserShareIt) {
  Charged w;
  HostQuota::Charge one = w.quota.Take(Way::kIn, kOne, 60);
  EXPECT_TRUE(w.quota.HasRoom(Way::kIn, kTwo, 40));
  EXPECT_FALSE(w.quota.HasRoom(Way::kIn, kTwo, 41));
  EXPECT_TRUE(w.quota.HasRoom(Way::kOut, kTwo, 100)) << "the ways are counted apart";
  EXPECT_TRUE(w.quota.HasRoom(Way::kIn, kBobs, 1000)) << "Bob has no limit";
  EXPECT_EQ(w.quota.Why(Way::kIn, kTwo, 41),
            "an array from the client needs 41 B of host memory, and user 'ada' has 60 B of 100 B: it waits until others have arrived");
  const HostQuota::Charge out = w.quota.Take(Way::kOut, kTwo, 70);
  EXPECT_EQ(w.quota.HeldBy({kOne, kTwo}), 70);
  const HostQuota::Charge between = w.quota.Take(Way::kBetween, kTwo, 500);
  EXPECT_EQ(w.quota.HeldBy({kOne, kTwo}), 70) << "what is not limited is not shown as used";
  EXPECT_EQ(w.quota.charged_bytes(), 630);
  const HostQuota::Charge copy = one;
  one = nullptr;
  EXPECT_TRUE(w.quota.Holds(kOne)) << "a copy is left";
}

TEST(HostQuota, WhatIsMoreThanTheWholeNeverFits) {
  Charged w;
  EXPECT_EQ(w.quota.Check(kOne, 100), absl::OkStatus());
  EXPECT_EQ(w.quota.Check(kBobs, 101), absl::OkStatus());
  const absl::Status never = w.quota.Check(kOne, 101);
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(never.message(), AllOf(HasSubstr("101 B"), HasSubstr("100 B"), HasSubstr("user 'ada'"), HasSubstr("--host-memory")));
}

TEST(HostQuota, ChargesMayOutliveIt) {
  auto w = std::make_unique<Charged>();
  HostQuota::Charge charge = w->quota.Take(Way::kIn, kOne, 60);
  EXPECT_EQ(w->quota.Take(Way::kIn, kOne, 0), nullptr);
  w = nullptr;
  charge = nullptr;
}

}  // namespace
}  // namespace pw::worker
