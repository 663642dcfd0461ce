#include "pathways/net/own_names.h"

#include <unistd.h>

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::net {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;
using ::testing::Not;

TEST(NamesOfListenerTest, TheLoopbackIsAlwaysAmongThemAndSoIsTheHost) {
  EXPECT_THAT(NamesOfListener("10.0.0.7"), testing::ElementsAre("localhost", "127.0.0.1", "::1", "10.0.0.7"));
  EXPECT_THAT(NamesOfListener("127.0.0.1"), testing::ElementsAre("localhost", "127.0.0.1", "::1"));
}

TEST(NamesOfListenerTest, AWildcardMeansThisMachinesNameAndAddresses) {
  char own[256] = "";
  ASSERT_EQ(::gethostname(own, sizeof(own) - 1), 0);
  for (const char* host : {"0.0.0.0", "::"}) {
    const std::vector<std::string> names = NamesOfListener(host);
    EXPECT_THAT(names, IsSupersetOf({std::string("localhost"), std::string("127.0.0.1"), std::string(own)}));
    EXPECT_THAT(names, Not(Contains(host)));
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  }
}

}  // namespace
}  // namespace pw::net
