#include "pathways/device/pjrt/client_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pw::device::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGpu[] = "/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so";
constexpr char kCpu[] = "/lib/libpjrt_cpu.so";
constexpr char kOther[] = "/lib/libother.so";

ClientOption Parsed(const char* plugin, const char* text) {
  const absl::StatusOr<ClientOption> option = ParseClientOption(plugin, text);
  EXPECT_TRUE(option.ok()) << option.status();
  return option.value_or(ClientOption());
}

std::string Refusal(const char* plugin, const char* text) {
  return std::string(ParseClientOption(plugin, text).status().message());
}

TEST(ClientOptionTest, TheNameGivesTheTypeWhereItIsKnown) {
  EXPECT_EQ(std::get<float>(Parsed(kGpu, "memory_fraction=1").value), 1.0f);
  EXPECT_EQ(std::get<bool>(Parsed(kGpu, "preallocate=0").value), false);
  EXPECT_EQ(std::get<std::string>(Parsed(kGpu, "allocator=bfc").value), "bfc");
  EXPECT_THAT(std::get<std::vector<int64_t>>(Parsed(kGpu, "visible_devices=3").value), ElementsAre(3));
  EXPECT_THAT(std::get<std::vector<int64_t>>(Parsed(kGpu, "visible_devices=0,2").value), ElementsAre(0, 2));
  EXPECT_EQ(std::get<int64_t>(Parsed(kCpu, "memory_limit_bytes=4096").value), 4096);
  EXPECT_EQ(std::get<bool>(Parsed(kCpu, "asynchronous=true").value), true);
}

TEST(ClientOptionTest, TheTextGivesTheTypeElsewhere) {
  EXPECT_EQ(std::get<int64_t>(Parsed(kOther, "a=7").value), 7);
  EXPECT_EQ(std::get<float>(Parsed(kOther, "a=0.5").value), 0.5f);
  EXPECT_EQ(std::get<bool>(Parsed(kOther, "a=false").value), false);
  EXPECT_THAT(std::get<std::vector<int64_t>>(Parsed(kOther, "a=1,2").value), ElementsAre(1, 2));
  EXPECT_EQ(std::get<std::string>(Parsed(kOther, "a=b=c").value), "b=c");
  EXPECT_EQ(std::get<std::string>(Parsed(kOther, "a=").value), "");
}

TEST(ClientOptionTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(Refusal(kGpu, "memory_fraction=half"), HasSubstr("memory_fraction wants NUMBER, not 'half'"));
  EXPECT_THAT(Refusal(kGpu, "visible_devices=0,"), HasSubstr("visible_devices wants INTEGER,INTEGER"));
  EXPECT_THAT(Refusal(kGpu, "preallocate=maybe"), HasSubstr("true|false"));
  EXPECT_THAT(Refusal(kGpu, "num_nodes=2"), HasSubstr("the worker sets the device option 'num_nodes' itself"));
  EXPECT_THAT(Refusal(kGpu, "preallocate"), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(Refusal(kGpu, "=1"), HasSubstr("NAME=VALUE"));
}

TEST(ClientOptionTest, TheListNamesEachOptionWithItsKindOfValue) {
  EXPECT_THAT(ListOptions(kGpu), HasSubstr("memory_fraction=NUMBER"));
  EXPECT_THAT(ListOptions(kCpu), HasSubstr("memory_limit_bytes=INTEGER"));
  EXPECT_THAT(ListOptions(kOther), HasSubstr("not known here"));
}

}  // namespace
}  // namespace pw::device::pjrt
