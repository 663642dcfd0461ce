#include "pathways/base/process/flags.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct FlagsTest : ::testing::Test {
  FlagsTest() {
    flags.Add("listen-clients", &address, "HOST:PORT", "where clients connect");
    flags.Add("expect-hosts", &hosts, "N", "wait for so many");
    flags.Add("heartbeat-limit", &limit, "DURATION", "silence that means loss");
    flags.Add("plugin", &plugins, "PATH", "a device plugin");
    flags.Add("own-workers", &own, "stop the workers too");
  }
  std::string address = "127.0.0.1:0";
  int hosts = 1;
  absl::Duration limit = absl::Seconds(10);
  std::vector<std::string> plugins;
  bool own = false;
  Flags flags{"pathways-controller", "Drives the hosts."};
};

TEST_F(FlagsTest, TakesEveryForm) {
  ASSERT_TRUE(flags
                  .Parse({"--listen-clients=:1", "--expect-hosts", "3", "--own-workers", "--plugin=a", "x", "--plugin", "b=c",
                          "--heartbeat-limit=500ms", "--", "--y"})
                  .ok());
  EXPECT_EQ(address, ":1");
  EXPECT_EQ(hosts, 3);
  EXPECT_TRUE(own);
  EXPECT_EQ(limit, absl::Milliseconds(500));
  EXPECT_THAT(plugins, ElementsAre("a", "b=c"));
  EXPECT_THAT(flags.positional(), ElementsAre("x", "--y"));
  ASSERT_TRUE(flags.Parse({"--no-own-workers"}).ok());
  EXPECT_FALSE(own);
  ASSERT_TRUE(flags.Parse({"--own-workers=true"}).ok());
  EXPECT_TRUE(own);
}

TEST_F(FlagsTest, NamesTheNearestOfAnUnknownFlag) {
  const absl::Status status = flags.Parse({"--expect-host=2"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean --expect-hosts?"));
  EXPECT_FALSE(flags.Parse({"--zzzzzzzzzz"}).ok());
  EXPECT_FALSE(flags.Parse({"-x"}).ok());
  EXPECT_FALSE(flags.Parse({"--no-expect-hosts"}).ok());
}

TEST_F(FlagsTest, RefusesValuesOfAnotherType) {
  EXPECT_THAT(std::string(flags.Parse({"--expect-hosts=two"}).message()), HasSubstr("--expect-hosts: \"two\" is not a valid N"));
  EXPECT_FALSE(flags.Parse({"--own-workers=maybe"}).ok());
  EXPECT_FALSE(flags.Parse({"--heartbeat-limit=5"}).ok());
  EXPECT_THAT(std::string(flags.Parse({"--expect-hosts"}).message()), HasSubstr("needs a value"));
}

TEST_F(FlagsTest, HelpListsFlagsAndDefaults) {
  ASSERT_TRUE(flags.Parse({"--help"}).ok());
  EXPECT_TRUE(flags.help_wanted());
  EXPECT_THAT(flags.Help(), HasSubstr("--listen-clients=HOST:PORT\n      where clients connect (default 127.0.0.1:0)"));
  EXPECT_THAT(flags.Help(), HasSubstr("--[no-]own-workers"));
}

}  // namespace
}  // namespace pw
