#include "pathways/net/address.h"

#include <string>

#include "gtest/gtest.h"

namespace pw::net {
namespace {

TEST(AddressTest, EveryFormHasOneNormalForm) {
  const std::pair<const char*, const char*> kCases[] = {
      {"tcp:host:80", "tcp:host:80"},   {"host:80", "tcp:host:80"},         {"127.0.0.1:0", "tcp:127.0.0.1:0"},
      {"tcp:[::1]:80", "tcp:[::1]:80"}, {"[::1]:65535", "tcp:[::1]:65535"}, {"unix:/run/a b.sock", "unix:/run/a b.sock"},
      {"unix:@name", "unix:@name"},     {"unix:relative", "unix:relative"}, {"tcp:unix:5", "tcp:unix:5"},
  };
  for (const auto& [text, normal] : kCases) {
    const auto address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(ToString(*address), normal);
    EXPECT_EQ(ToString(*ParseAddress(ToString(*address))), normal);
  }
}

TEST(AddressTest, WhatIsNoAddressSaysWhyAndHowToWriteOne) {
  for (const std::string& text :
       {std::string(""), std::string("host"), std::string("tcp:"), std::string("host:"), std::string(":80"),
        std::string("host:-1"), std::string("host:65536"), std::string("host: 80"), std::string("host:80x"),
        std::string("::1:80"), std::string("[::1:80"), std::string("[]:80"), std::string("unix:"), std::string("unix:@"),
        "unix:" + std::string(108, 'a'), std::string("unix:a\0b", 8), std::string("h\0st:80", 7),
        "tcp:" + std::string("host:99999999999999999999")}) {
    const absl::Status status = ParseAddress(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("unix:PATH"), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace pw::net
