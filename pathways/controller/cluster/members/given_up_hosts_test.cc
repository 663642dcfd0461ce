#include "pathways/controller/cluster/members/given_up_hosts.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace pw::controller {
namespace {

TEST(GivenUpHostsTest, TellsTheReasonOnlyForTheKeyOfTheHost) {
  GivenUpHosts hosts;
  hosts.Add(HostId(1), "key 1", "silent");
  hosts.Add(HostId(2), "key 2", "ended");
  EXPECT_EQ(hosts.ReasonFor(HostId(1), "key 1"), "silent");
  EXPECT_EQ(hosts.ReasonFor(HostId(2), "key 2"), "ended");
  EXPECT_EQ(hosts.ReasonFor(HostId(1), "key 2"), std::nullopt);
  EXPECT_EQ(hosts.ReasonFor(HostId(3), "key 1"), std::nullopt);
  EXPECT_EQ(hosts.ReasonFor(HostId(1), ""), std::nullopt);
}

TEST(GivenUpHostsTest, ForgetsTheOldest) {
  GivenUpHosts hosts;
  const uint64_t most = GivenUpHosts::kMost;
  for (uint64_t i = 0; i <= most; ++i) hosts.Add(HostId(i), absl::StrCat("key ", i), "silent");
  EXPECT_EQ(hosts.ReasonFor(HostId(0), "key 0"), std::nullopt);
  EXPECT_EQ(hosts.ReasonFor(HostId(1), "key 1"), "silent");
  EXPECT_EQ(hosts.ReasonFor(HostId(most), absl::StrCat("key ", most)), "silent");
}

}  // namespace
}  // namespace pw::controller
