#include "pathways/controller/names/unsettled_requests.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/names/request_names.h"

namespace pw::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(UnsettledRequestsTest, ARequestIsSettledWhenAllLetGoOfIt) {
  UnsettledRequests requests;
  for (uint64_t request : {1, 2, 3, 4}) requests.Hold(request);
  requests.Hold(2);
  requests.Release(3);
  requests.Release(2);
  EXPECT_EQ(requests.settled_up_to(), 0u);
  EXPECT_THAT(requests.SettledAfter(9), ElementsAre(3, 3));
  requests.Release(1);
  EXPECT_EQ(requests.settled_up_to(), 1u);
  requests.Release(2);
  EXPECT_EQ(requests.settled_up_to(), 3u);
  EXPECT_THAT(requests.SettledAfter(9), IsEmpty());
  requests.Release(4);
  EXPECT_EQ(requests.settled_up_to(), 4u);
  EXPECT_EQ(requests.settled(), 4u);
}

TEST(UnsettledRequestsTest, ASettledRequestStaysSettled) {
  UnsettledRequests requests;
  requests.Hold(5);
  requests.Release(5);
  requests.Hold(5);
  requests.Hold(3);
  EXPECT_EQ(requests.settled_up_to(), 5u);
  requests.Release(5);
  requests.Release(3);
  EXPECT_EQ(requests.settled(), 1u);
}

TEST(UnsettledRequestsTest, OnlyTheLastRangesAreToldIfThereAreMany) {
  UnsettledRequests requests;
  for (uint64_t request = 1; request <= 9; ++request) requests.Hold(request);
  for (uint64_t request : {2, 4, 6, 8, 9}) requests.Release(request);
  EXPECT_THAT(requests.SettledAfter(9), ElementsAre(2, 2, 4, 4, 6, 6, 8, 9));
  EXPECT_THAT(requests.SettledAfter(2), ElementsAre(6, 6, 8, 9));
}

TEST(UnsettledRequestsTest, ARequestIsSettledWhenItsClientKnows) {
  const auto requests = std::make_shared<UnsettledRequests>();
  int settled = 0;
  requests->AwaitClient();
  requests->OnSettled([&] { ++settled; });
  for (uint64_t request : {1, 2, 3, 4, 5}) requests->Hold(request);
  for (uint64_t request : {4, 2, 1}) requests->Release(request);
  EXPECT_EQ(requests->settled_up_to(), 0u);
  EXPECT_EQ(requests->untold(), 3u);
  requests->Hold(1);
  requests->Release(1);
  EXPECT_EQ(requests->untold(), 3u) << "a done request stays done";
  UnsettledRequests::Done first = UnsettledRequests::TakeDone(requests);
  EXPECT_THAT(first.ranges, ElementsAre(1, 2, 4, 4));
  EXPECT_EQ(requests->untold(), 0u);
  requests->Release(3);
  const UnsettledRequests::Done second = UnsettledRequests::TakeDone(requests);
  EXPECT_THAT(second.ranges, ElementsAre(3, 3));
  EXPECT_EQ(requests->settled(), 0u);
  first.known = nullptr;
  EXPECT_EQ(settled, 1);
  EXPECT_EQ(requests->settled(), 3u);
  EXPECT_EQ(requests->settled_up_to(), 2u) << "the client may not know of 3";
  EXPECT_THAT(requests->SettledAfter(9), ElementsAre(4, 4));
}

TEST(UnsettledRequestsTest, RequestsThatAreSkippedAreSettled) {
  UnsettledRequests requests;
  requests.Hold(3);
  requests.Hold(7);
  requests.Skip(9);
  EXPECT_EQ(requests.settled_up_to(), 2u);
  EXPECT_THAT(requests.SettledAfter(9), ElementsAre(4, 6, 8, 9));
  requests.Release(3);
  requests.Release(7);
  EXPECT_EQ(requests.settled_up_to(), 9u);
}

TEST(UnsettledRequestsTest, RandomHolds) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    UnsettledRequests requests;
    std::map<uint64_t, int> model;
    uint64_t last = 0;
    for (int i = 0; i < 200; ++i) {
      const uint64_t request = random() % 3 == 0 ? ++last : 1 + random() % (last + 1);
      last = std::max(last, request);
      if (model.try_emplace(request, 0).second || (model[request] > 0 && random() % 2 == 0)) {
        // A request that began late counts as settled before.
        if (model[request] == 0 && model.upper_bound(request) != model.end()) model[request] = -1;
        requests.Hold(request);
        if (model[request] >= 0) ++model[request];
      } else {
        requests.Release(request);
        if (model[request] > 0 && --model[request] == 0) model[request] = -1;
      }
      uint64_t up_to = 0;
      std::set<uint64_t> settled;
      const std::vector<uint64_t> ranges = requests.SettledAfter(1000);
      for (size_t r = 0; r + 1 < ranges.size(); r += 2) {
        for (uint64_t at = ranges[r]; at <= ranges[r + 1]; ++at) settled.insert(at);
      }
      up_to = requests.settled_up_to();
      for (uint64_t at = 1; at <= last; ++at) {
        const auto known = model.find(at);
        const bool open = known != model.end() && known->second > 0;
        ASSERT_EQ(open, at > up_to && !settled.contains(at)) << "seed " << seed << ", request " << at;
      }
    }
  }
}

TEST(RequestHoldTest, CopiesHoldAndMovesDoNot) {
  const auto requests = std::make_shared<UnsettledRequests>();
  std::optional<RequestHold> first(RequestHold(requests, 1));
  RequestHold second = *first;
  RequestHold third = std::move(second);
  first.reset();
  EXPECT_EQ(requests->settled(), 0u);
  third = RequestHold();
  EXPECT_EQ(requests->settled(), 1u);
}

TEST(SessionNamesTest, ScopesOfLaterWorkHoldTheirRequest) {
  SessionNames names(SessionId(5));
  names.Begin(1);
  std::optional<NameScope> later(names.now().Take({4, 4}));
  names.End();
  names.Begin(2);
  {
    const SessionNames::Outside outside(&names);
    EXPECT_EQ(names.unsettled()->settled(), 0u) << "it goes on afterwards";
  }
  names.End();
  EXPECT_EQ(names.unsettled()->settled(), 1u);
  EXPECT_EQ(names.unsettled()->settled_up_to(), 0u);
  NameScope of_a_part = later->Take({1, 1});
  later.reset();
  EXPECT_EQ(names.unsettled()->settled_up_to(), 0u);
  of_a_part = names.now();
  EXPECT_EQ(names.unsettled()->settled_up_to(), 2u);
}

}  // namespace
}  // namespace pw::controller
