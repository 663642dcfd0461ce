#include "pathways/controller/hosts/settlement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"

namespace pw::controller {
namespace {

using ::pathways::v1::ToWorker;
using ::testing::ElementsAre;

constexpr SessionId kOfSettlement{5};
constexpr HostId kHostA{1}, kHostB{2};

class SettlementTest : public ::testing::Test {
 protected:
  SettlementTest() { settlement_.Open(kOfSettlement, requests_); }
  static uint64_t OpOf(uint64_t request) { return *RequestName{kOfSettlement, request, 0, false}.Number(); }
  void Begin(uint64_t first, uint64_t last) {
    for (uint64_t request = first; request <= last; ++request) settlement_.Hold(OpOf(request));
  }
  void End(HostId host, uint64_t first, uint64_t last) {
    for (uint64_t request = first; request <= last; ++request) settlement_.Release(host, OpOf(request));
  }
  ToWorker Told(HostId host) {
    ToWorker frame;
    settlement_.Tell(host, &frame);
    return frame;
  }

  Settlement settlement_;
  const std::shared_ptr<UnsettledRequests> requests_ = std::make_shared<UnsettledRequests>();
};

TEST_F(SettlementTest, HostsAreToldWhenManyRequestsAreSettled) {
  Begin(1, 100);
  End(kHostA, 1, Settlement::kStep - 1);
  EXPECT_EQ(Told(kHostA).settled_size(), 0);
  End(kHostA, Settlement::kStep, 70);
  EXPECT_EQ(Told(kHostB).settled_size(), 0) << "it had no command";
  const ToWorker told = Told(kHostA);
  ASSERT_EQ(told.settled_size(), 1);
  EXPECT_EQ(told.settled(0).session(), kOfSettlement.v);
  EXPECT_EQ(told.settled(0).up_to(), 70u) << "what is settled when the frame goes";
  EXPECT_EQ(Told(kHostA).settled_size(), 0) << "once";
}

// A request that does not end keeps its own names alone.
TEST_F(SettlementTest, RequestsAfterOneThatGoesOnAreToldToo) {
  Begin(1, 200);
  End(kHostA, 1, 10);
  End(kHostA, 12, 20);
  End(kHostB, 22, 100);
  for (HostId host : {kHostA, kHostB}) {
    const ToWorker told = Told(host);
    ASSERT_EQ(told.settled_size(), 1);
    EXPECT_EQ(told.settled(0).up_to(), 10u);
    EXPECT_THAT(told.settled(0).others(), ElementsAre(12, 20, 22, 100));
  }
  End(kHostB, 11, 11);
  End(kHostB, 21, 21);
  End(kHostB, 101, 200);
  EXPECT_EQ(Told(kHostB).settled(0).up_to(), 200u);
  EXPECT_EQ(Told(kHostA).settled(0).up_to(), 200u) << "it was not told of all that had ended there";
  Begin(201, 300);
  End(kHostB, 201, 300);
  EXPECT_EQ(Told(kHostA).settled_size(), 0) << "it had no command since";
}

TEST_F(SettlementTest, OwnNamesAndUnknownSessionsChangeNothing) {
  settlement_.Hold(*RequestName{kOfSettlement, 0, 7, true}.Number());
  settlement_.Release(kHostA, *RequestName{kOfSettlement, 0, 7, true}.Number());
  settlement_.Hold(*RequestName{SessionId(9), 1, 0, false}.Number());
  settlement_.Hold(0);
  EXPECT_EQ(requests_->settled(), 0u);
  EXPECT_EQ(requests_->settled_up_to(), 0u);
  Begin(1, 100);
  End(kHostA, 1, 100);
  settlement_.End(kOfSettlement);
  EXPECT_EQ(Told(kHostA).settled_size(), 0);
  EXPECT_FALSE(settlement_.Has(kOfSettlement));
}

}  // namespace
}  // namespace pw::controller
