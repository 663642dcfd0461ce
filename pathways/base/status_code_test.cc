#include "pathways/base/status_code.h"

#include <limits>

#include "gtest/gtest.h"

namespace pw {
namespace {

TEST(StatusFrom, EveryCodeOfAbslIsItself) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status = StatusFrom(code, "why");
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(status.message(), "why");
  }
}

TEST(StatusFrom, ZeroIsOkWhateverTheText) { EXPECT_EQ(StatusFrom(0, "ignored"), absl::OkStatus()); }

TEST(StatusFrom, ANumberThatNobodyKnowsIsAnErrorAllTheSame) {
  for (const int code : {-1, 17, 20, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    EXPECT_EQ(StatusFrom(code, "why"), absl::UnknownError("why"));
  }
}

}  // namespace
}  // namespace pw
