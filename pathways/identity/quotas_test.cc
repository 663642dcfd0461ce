#include "pathways/identity/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::identity {
namespace {

TEST(QuotaTable, AUsersOwnLimitComesBeforeEverybodys) {
  QuotaTable table;
  ASSERT_EQ(table.Change("*", {.sessions = 2, .weight = 1.0}, {}), absl::OkStatus());
  ASSERT_EQ(table.Change("ada", {.sessions = 5, .device_seconds = 3600.0}, {}), absl::OkStatus());
  EXPECT_EQ(table.Of("ada"), (Quota{.sessions = 5, .device_seconds = 3600.0, .weight = 1.0}));
  EXPECT_EQ(table.Of("grace"), (Quota{.sessions = 2, .weight = 1.0}));
  EXPECT_TRUE(QuotaTable().Of("ada").empty());
}

TEST(QuotaTable, AChangeKeepsTheLimitsThatItDoesNotName) {
  QuotaTable table;
  ASSERT_EQ(table.Change("ada", {.sessions = 1, .priority = -1}, {}), absl::OkStatus());
  ASSERT_EQ(table.Change("ada", {.sessions = 2}, {}), absl::OkStatus());
  EXPECT_EQ(table.Of("ada"), (Quota{.sessions = 2, .priority = -1}));
  ASSERT_EQ(table.Change("ada", {.weight = 2.0}, {"priority"}), absl::OkStatus());
  EXPECT_EQ(table.Of("ada"), (Quota{.sessions = 2, .weight = 2.0}));
  ASSERT_EQ(table.Change("ada", {.devices = 1, .device_memory = 2}, {}), absl::OkStatus());
  ASSERT_EQ(table.Change("ada", {}, {"devices"}), absl::OkStatus());
  EXPECT_EQ(table.Of("ada"), (Quota{.sessions = 2, .weight = 2.0, .device_memory = 2}));
  ASSERT_EQ(table.Change("ada", {}, {"all"}), absl::OkStatus());
  EXPECT_TRUE(table.all().empty());
}

TEST(QuotaTable, RefusesLimitsThatMakeNoSense) {
  QuotaTable table;
  const auto refused = [&](const std::string& user, const Quota& quota, const std::vector<std::string>& removed = {}) {
    return table.Change(user, quota, removed).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused("ada", {.sessions = -1}));
  EXPECT_TRUE(refused("ada", {.device_seconds = -1.0}));
  EXPECT_TRUE(refused("ada", {.device_seconds = std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(refused("ada", {.weight = 0.0}));
  EXPECT_TRUE(refused("ada", {.devices = -1}));
  EXPECT_TRUE(refused("ada", {.device_memory = -1}));
  EXPECT_TRUE(refused("ada", {.host_memory = -1}));
  EXPECT_TRUE(refused("ada", {.host_processes = -1}));
  EXPECT_TRUE(refused("a da", {.sessions = 1}));
  EXPECT_TRUE(refused("", {.sessions = 1}));
  EXPECT_TRUE(refused("ada", {}, {"memory"}));
  EXPECT_TRUE(table.all().empty());
}

TEST(QuotaTable, ItsTextGivesTheSameTable) {
  QuotaTable table;
  ASSERT_EQ(table.Change("*", {.sessions = 2}, {}), absl::OkStatus());
  ASSERT_EQ(table.Change("ada@example", {.device_seconds = 0.5, .weight = 1.25, .priority = -3}, {}), absl::OkStatus());
  ASSERT_EQ(table.Change("bob", {.devices = 8, .device_memory = int64_t{1} << 40, .host_processes = 0}, {}), absl::OkStatus());
  const absl::StatusOr<QuotaTable> read = QuotaTable::Parse(table.ToText());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->all(), table.all());
  EXPECT_THAT(table.ToText(), testing::HasSubstr("bob devices=8 device_memory=1099511627776 host_processes=0\n"));
  EXPECT_TRUE(QuotaTable::Parse("")->all().empty());
}

TEST(QuotaTable, DamagedTextIsRefused) {
  for (const char* text : {"ada", "ada sessions", "ada sessions=", "ada sessions=x", "ada sessions=-1", "ada memory=1",
                           " sessions=1", "ada sessions=1\nada sessions=2", "a da sessions=1", "ada weight=nan"}) {
    EXPECT_EQ(QuotaTable::Parse(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace pw::identity
