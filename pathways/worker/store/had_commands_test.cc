#include "pathways/worker/store/had_commands.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "pathways/base/request_name.h"

namespace pw::worker {
namespace {

namespace v1 = pathways::v1;
using Had = HadCommands::Kind;

uint64_t HadName(uint64_t request, uint64_t count = 0, uint64_t session = 1, bool own = false) {
  return *RequestName{SessionId(session), request, count, own}.Number();
}

v1::Settled SettledRequests(uint64_t up_to, const std::vector<uint64_t>& others = {}, uint64_t session = 1) {
  v1::Settled settled;
  settled.set_session(session);
  settled.set_up_to(up_to);
  settled.mutable_others()->Add(others.begin(), others.end());
  return settled;
}

v1::Event FetchedEvent(uint64_t fetch) {
  v1::Event event;
  event.mutable_fetched()->set_fetch(fetch);
  return event;
}

TEST(HadCommandsTest, ANameIsNewOnce) {
  HadCommands had;
  EXPECT_TRUE(had.Begin(Had::kOp, HadName(1)));
  EXPECT_FALSE(had.Begin(Had::kOp, HadName(1)));
  EXPECT_TRUE(had.Begin(Had::kFetch, HadName(1))) << "ops and other ids are counted apart";
  EXPECT_TRUE(had.Begin(Had::kOp, HadName(1, 2)));
  EXPECT_TRUE(had.Begin(Had::kOp, HadName(1, 0, 2))) << "of another session";
  EXPECT_EQ(had.names(), 4);
  EXPECT_EQ(had.Ended(Had::kOp, HadName(1)), nullptr);
  had.Done(HadName(1), 5);
  ASSERT_NE(had.Ended(Had::kOp, HadName(1)), nullptr);
  EXPECT_EQ(had.Ended(Had::kOp, HadName(1))->device_microseconds, 5);
  had.Done(HadName(1), 6);
  EXPECT_EQ(had.Ended(Had::kOp, HadName(1))->device_microseconds, 5) << "the first answer counts";
  EXPECT_FALSE(had.Begin(Had::kOp, HadName(1)));
}

TEST(HadCommandsTest, OnlyCommandsThatHaveEndedAreKeptForTheNextController) {
  HadCommands had;
  for (uint64_t request : {1, 2, 3, 4, 5}) had.Begin(Had::kOp, HadName(request));
  had.Begin(Had::kOp, HadName(1, 0, 2));
  had.Begin(Had::kFetch, HadName(6));
  had.Begin(Had::kFetch, HadName(7));
  for (uint64_t request : {3, 4}) {
    had.Begin(Had::kTransfer, HadName(request, 1));
    had.Tie(HadName(request), HadName(request, 1));
  }
  had.Done(HadName(1), 5);
  had.Done(HadName(3), 6);
  had.Done(HadName(1, 0, 2), 7);
  v1::Event on_lane = FetchedEvent(HadName(6));
  on_lane.mutable_fetched()->set_on_lane(true);
  had.Keep(Had::kFetch, HadName(6), on_lane);
  had.Keep(Had::kFetch, HadName(7), FetchedEvent(HadName(7)), Bytes::Copy("abcd"));
  EXPECT_EQ(had.sessions().size(), 2u);
  had.KeepEnded({SessionId(1)});
  EXPECT_NE(had.Ended(Had::kOp, HadName(1)), nullptr);
  EXPECT_NE(had.Ended(Had::kOp, HadName(3)), nullptr);
  EXPECT_TRUE(had.Has(Had::kTransfer, HadName(3, 1)));
  EXPECT_NE(had.Ended(Had::kFetch, HadName(7)), nullptr);
  EXPECT_EQ(had.names(), 4);
  EXPECT_EQ(had.kept_bytes(), 4u);
  EXPECT_TRUE(had.Begin(Had::kOp, HadName(2))) << "it had not ended";
  EXPECT_TRUE(had.Begin(Had::kTransfer, HadName(4, 1))) << "the Put that awaited it comes again";
  EXPECT_TRUE(had.Begin(Had::kFetch, HadName(6))) << "its bytes may not have arrived";
  EXPECT_EQ(had.sessions().size(), 1u);
}

TEST(HadCommandsTest, OwnNamesAndNumbersThatNameNothingAreAlwaysNew) {
  HadCommands had;
  for (const uint64_t name : {uint64_t{0}, uint64_t{1} << 63, HadName(3, 1, 1, true)}) {
    EXPECT_TRUE(had.Begin(Had::kOp, name));
    EXPECT_TRUE(had.Begin(Had::kOp, name));
    had.Done(name, 1);
    had.Forget(Had::kOp, name);
  }
  EXPECT_EQ(had.names(), 0);
}

TEST(HadCommandsTest, NamesOfSettledRequestsAreForgotten) {
  HadCommands had;
  for (uint64_t request = 1; request <= 9; ++request) {
    had.Begin(Had::kOp, HadName(request));
    had.Begin(Had::kExpected, HadName(request, 1));
  }
  had.Begin(Had::kOp, HadName(2, 0, 7));
  had.Settle(SettledRequests(3, {5, 6, 9, 20}));
  EXPECT_EQ(had.names(), 2 * 3 + 1);
  for (uint64_t request = 1; request <= 9; ++request)
    EXPECT_EQ(had.Has(Had::kOp, HadName(request)), request == 4 || request == 7 || request == 8) << request;
  had.Settle(SettledRequests(UINT64_MAX));
  EXPECT_EQ(had.names(), 1) << "that of the other session";
  had.End(SessionId(7));
  EXPECT_EQ(had.names(), 0);
  EXPECT_TRUE(had.Begin(Had::kOp, HadName(3, 0, 7))) << "late commands of a session leave nothing";
  EXPECT_EQ(had.names(), 0);
}

TEST(HadCommandsTest, LargeAnswersAreForgottenWhenOthersNeedTheMemory) {
  HadCommands had;
  const size_t size = HadCommands::kMostKeptBytes / 4;
  for (uint64_t fetch = 1; fetch <= 6; ++fetch) {
    had.Begin(Had::kFetch, HadName(fetch));
    had.Keep(Had::kFetch, HadName(fetch), FetchedEvent(fetch), Bytes::FromString(std::string(size, 'x')));
    if (fetch == 2) had.Settle(SettledRequests(1));
  }
  EXPECT_EQ(had.kept_bytes(), 4 * size);
  EXPECT_FALSE(had.Has(Had::kFetch, HadName(1))) << "settled";
  EXPECT_FALSE(had.Has(Had::kFetch, HadName(2))) << "the oldest";
  ASSERT_NE(had.Ended(Had::kFetch, HadName(3)), nullptr);
  EXPECT_EQ(had.Ended(Had::kFetch, HadName(3))->answer->payload.size(), size);
  v1::Event strings;
  strings.mutable_described()->set_module(std::string(HadCommands::kMostKeptBytes, 'y'));
  had.Begin(Had::kQuery, HadName(7));
  had.Keep(Had::kQuery, HadName(7), strings);
  EXPECT_EQ(had.names(), 1);
  strings.mutable_described()->set_module(std::string(HadCommands::kMostKeptBytes + 1, 'y'));
  had.Begin(Had::kQuery, HadName(8));
  had.Keep(Had::kQuery, HadName(8), strings);
  EXPECT_EQ(had.names(), 0) << "more than may be kept at all";
  EXPECT_EQ(had.kept_bytes(), 0u);
}

// Against a model: names come, end, and are settled in any order.
TEST(HadCommandsTest, RandomCommandsAreRecognizedUntilTheirRequestIsSettled) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&random](uint64_t n) { return random() % n; };
    HadCommands had;
    std::map<std::tuple<uint64_t, uint64_t, uint64_t>, int> model;  // session, request, count: 1 under way, 2 ended
    for (int i = 0; i < 300; ++i) {
      const uint64_t session = 1 + pick(3), request = 1 + pick(20), count = pick(4), name = HadName(request, count, session);
      const auto key = std::tuple(session, request, count);
      switch (pick(8)) {
        case 0: {
          const uint64_t up_to = pick(12), first = up_to + 1 + pick(4), last = first + pick(4);
          had.Settle(SettledRequests(up_to, {first, last}, session));
          std::erase_if(model, [&](const auto& entry) {
            const auto& [s, r, c] = entry.first;
            return s == session && (r <= up_to || (r >= first && r <= last));
          });
          break;
        }
        case 1:
          had.Done(name, static_cast<double>(count));
          if (model.contains(key)) model[key] = 2;
          break;
        default:
          ASSERT_EQ(had.Begin(Had::kOp, name), model.try_emplace(key, 1).second) << "seed " << seed;
      }
      ASSERT_EQ(had.names(), static_cast<int64_t>(model.size())) << "seed " << seed;
      ASSERT_EQ(had.Ended(Had::kOp, name) != nullptr, model.contains(key) && model[key] == 2) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace pw::worker
