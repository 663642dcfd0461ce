#include "pathways/identity/epochs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/identity/token_file.h"

namespace pw::identity {
namespace {

using ::testing::HasSubstr;

class EpochsTest : public ::testing::Test {
 protected:
  EpochsTest() : folder_(absl::StrCat(::testing::TempDir(), "pw_epochs_", ::getpid())) {
    ::mkdir(folder_.c_str(), 0700);
    ::unlink((folder_ + "/epoch").c_str());
  }
  static absl::Time At(int64_t microseconds) { return absl::FromUnixMicros(microseconds); }

  const std::string folder_;
};

TEST_F(EpochsTest, IsTheTimeOfTheStart) {
  EXPECT_EQ(*NextEpoch("", At(7)), 7u);
  EXPECT_EQ(*NextEpoch("", absl::InfinitePast()), 1u) << "never 0, which stands for none";
  EXPECT_TRUE(TakeEpoch("", 7).ok());
  EXPECT_EQ(*NextEpoch(folder_, At(7)), 7u);
  EXPECT_EQ(*ReadEpoch(folder_), 0u) << "it is not taken yet";
  ASSERT_TRUE(TakeEpoch(folder_, 7).ok());
  EXPECT_EQ(*ReadEpoch(folder_), 7u);
}

TEST_F(EpochsTest, GrowsAlsoIfTheClockIsSetBack) {
  ASSERT_TRUE(TakeEpoch(folder_, 1000).ok());
  for (int64_t now : {1000, 3}) EXPECT_EQ(*NextEpoch(folder_, At(now)), 1001u);
  EXPECT_EQ(*NextEpoch(folder_, At(5000)), 5000u);
}

TEST_F(EpochsTest, AFileOfSomethingElseIsNamedAndLeftAlone) {
  for (const char* text : {"", "seven", "-1", "99999999999999999999"}) {
    ASSERT_TRUE(WritePrivateFile(folder_ + "/epoch", text).ok());
    const absl::StatusOr<uint64_t> next = NextEpoch(folder_, At(7));
    EXPECT_EQ(next.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(next.status().message()), HasSubstr(folder_ + "/epoch"));
    EXPECT_EQ(*ReadPrivateFile(folder_ + "/epoch", 100), text);
  }
}

}  // namespace
}  // namespace pw::identity
