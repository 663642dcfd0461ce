#include "pathways/controller/hosts/host_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "pathways/base/testing/manual_world.h"
#include "pathways/base/unreachable_host.h"

namespace pw::controller {
namespace {

using ::testing::HasSubstr;

struct LossWorld {
  ManualClock clock;
  resource::Topology topology;
  HostLosses losses{&clock, &topology};
  std::optional<absl::Status> told;

  void Report(const absl::Status& error) {
    losses.Explain(HostId(0), error, [this](const absl::Status& status) { told = status; });
  }
};

const absl::Status kLoss = absl::DataLossError("host 'b' of island 'i' is gone since noon");

TEST(HostLossesTest, AnErrorThatNamesALostHostIsItsLoss) {
  LossWorld w;
  w.losses.OnHostLost(HostId(1), kLoss);
  w.Report(UnreachableHostError(HostId(1), "the connection broke"));
  EXPECT_EQ(w.told, kLoss);
  EXPECT_EQ(w.losses.Of(HostId(1)), kLoss);
  EXPECT_EQ(w.losses.Of(HostId(2)).code(), absl::StatusCode::kDataLoss);
}

TEST(HostLossesTest, ALossIsToldWhereTheErrorWas) {
  LossWorld w;
  w.losses.OnHostLost(HostId(1), kLoss);
  w.Report(UnreachableHostError(HostId(1), "the connection broke [at node 3 of step: train.py:7]"));
  ASSERT_TRUE(w.told.has_value());
  EXPECT_EQ(w.told->message(), "host 'b' of island 'i' is gone since noon [at node 3 of step: train.py:7]");
}

TEST(HostLossesTest, AnErrorWaitsForTheLossOfTheHostThatItNames) {
  LossWorld w;
  w.Report(UnreachableHostError(HostId(1), "the connection broke"));
  w.losses.OnHostLost(HostId(2), absl::DataLossError("another"));
  EXPECT_EQ(w.told, std::nullopt);
  w.losses.OnHostLost(HostId(1), kLoss);
  EXPECT_EQ(w.told, kLoss);
  EXPECT_EQ(w.losses.waiting(), 0u);
}

TEST(HostLossesTest, HostsThatStayAreCutFromEachOther) {
  LossWorld w;
  w.losses.set_patience(absl::Seconds(10));
  w.Report(UnreachableHostError(HostId(1), "the connection broke"));
  w.clock.now += absl::Seconds(9);
  w.losses.OnTick(w.clock.Now());
  EXPECT_EQ(w.told, std::nullopt);
  w.clock.now += absl::Seconds(1);
  w.losses.OnTick(w.clock.Now());
  ASSERT_TRUE(w.told.has_value());
  EXPECT_EQ(w.told->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(w.told->message(), HasSubstr("host 0 cannot reach host 1, and the controller hears from both"));
}

TEST(HostLossesTest, OtherErrorsAreToldAtOnce) {
  LossWorld w;
  w.Report(absl::UnavailableError("out of luck"));
  EXPECT_EQ(w.told, absl::UnavailableError("out of luck"));
}

}  // namespace
}  // namespace pw::controller
