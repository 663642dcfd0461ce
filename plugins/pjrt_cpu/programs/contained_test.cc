// Tests that a fatal error of the compiler is the error of its caller alone.
#include "plugins/pjrt_cpu/programs/contained.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/log/check.h"
#include "absl/log/log.h"

namespace pw::pjrt_cpu {
namespace {

using ::testing::HasSubstr;

TEST(Contained, WorkThatSucceedsGivesItsResult) {
  EXPECT_EQ(*Contained([] { return absl::StatusOr<int>(7); }), 7);
  const absl::Status refused = Contained([] { return absl::StatusOr<int>(absl::InvalidArgumentError("no")); }).status();
  EXPECT_EQ(refused, absl::InvalidArgumentError("no"));
  std::unique_ptr<int> moved = *Contained([] { return absl::StatusOr<std::unique_ptr<int>>(std::make_unique<int>(3)); });
  EXPECT_EQ(*moved, 3);
}

TEST(Contained, AFatalErrorIsTheCallersAndItsThreadGoesOn) {
  for (int i = 0; i < 3; ++i) {
    const absl::Status fatal = RunContained([] { LOG(FATAL) << "a planted error"; });
    EXPECT_EQ(fatal.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(fatal.message()), HasSubstr("a planted error"));
    const absl::StatusOr<int> check = Contained([i]() -> absl::StatusOr<int> {
      CHECK_LT(i, 0) << "a planted check";
      return i;
    });
    EXPECT_THAT(std::string(check.status().message()), HasSubstr("a planted check"));
    EXPECT_EQ(*Contained([i] { return absl::StatusOr<int>(i); }), i) << "the same thread compiles the next program";
  }
}

TEST(Contained, ErrorsOfSomeDoNotReachOthers) {
  std::vector<std::thread> callers;
  std::vector<absl::Status> ended(8);
  for (size_t i = 0; i < ended.size(); ++i) {
    callers.emplace_back([&ended, i] {
      ended[i] = RunContained([i] {
        if (i % 2 == 0) LOG(FATAL) << "error " << i;
      });
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < ended.size(); ++i) {
    EXPECT_EQ(ended[i].ok(), i % 2 != 0);
    const std::string expected = i % 2 == 0 ? "error " + std::to_string(i) : "";
    EXPECT_THAT(std::string(ended[i].message()), HasSubstr(expected));
  }
}

}  // namespace
}  // namespace pw::pjrt_cpu
