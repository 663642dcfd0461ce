#include "pathways/controller/names/request_names.h"

#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace pw::controller {
namespace {

constexpr SessionId kSession{5};

RequestName Read(uint64_t number) { return RequestName::Read(number).value_or(RequestName()); }
RequestName Of(uint64_t request, uint64_t count) { return {kSession, request, count, false}; }

TEST(SessionNamesTest, NamesAreCountedWithinTheRequest) {
  SessionNames names(kSession);
  names.Begin(7);
  EXPECT_EQ(Read(names.now().NextId()), Of(7, 0));
  EXPECT_EQ(Read(names.now().NextId()), Of(7, 1));
  const uint64_t range = names.now().ReserveIds(100);
  EXPECT_EQ(Read(range), Of(7, 2));
  EXPECT_EQ(Read(range + 99 * RequestName::kStep), Of(7, 101));
  EXPECT_EQ(Read(names.now().NextId()), Of(7, 102));
  names.Begin(8);
  EXPECT_EQ(Read(names.now().NextId()), Of(8, 0));
}

TEST(SessionNamesTest, OutsideOfRequestsNamesAreTheSessionsOwn) {
  SessionNames names(kSession);
  const RequestName first = Read(names.now().NextId());
  EXPECT_TRUE(first.own);
  EXPECT_EQ(first.session, kSession);
  names.Begin(1);
  {
    const SessionNames::Outside outside(&names);
    EXPECT_EQ(Read(names.now().NextId()), (RequestName{kSession, 0, 1, true}));
  }
  EXPECT_EQ(Read(names.now().NextId()), Of(1, 0)) << "the request goes on";
  names.End();
  EXPECT_EQ(Read(names.now().NextId()), (RequestName{kSession, 0, 2, true}));
}

TEST(SessionNamesTest, ACommandIsNamedToItsHost) {
  SessionNames names(kSession);
  names.Begin(3);
  NameScope& now = names.now();
  EXPECT_EQ(Read(now.NextOpOfAll(true).v), Of(3, OpCount(0, true)));
  EXPECT_EQ(Read(now.NextOp(HostId(1)).v), Of(3, OpCount(1, false)));
  EXPECT_EQ(Read(now.NextOp(HostId(2)).v), Of(3, OpCount(1, false)));
  EXPECT_EQ(Read(now.NextOp(HostId(2)).v), Of(3, OpCount(2, false)));
  EXPECT_EQ(Read(now.NextOpOfAll().v), Of(3, OpCount(3, false))) << "which no host has yet";
  EXPECT_EQ(Read(now.NextOp(HostId(1)).v), Of(3, OpCount(4, false)));
}

TEST(SessionNamesTest, WhatAPartTakesChangesNoOtherName) {
  for (const int failed : {0, 1, 2}) {
    SessionNames names(kSession);
    names.Begin(2);
    std::vector<uint64_t> counts;
    for (int i = 0; i < 3; ++i) {
      const SessionNames::Part part(&names, {4, 1});
      if (i == failed) continue;
      const uint64_t count = Read(names.now().NextId()).count;
      EXPECT_EQ(count, 4u * static_cast<uint64_t>(i));
      EXPECT_EQ(Read(names.now().NextOp(HostId(9)).v).count, OpCount(static_cast<uint64_t>(i), false));
    }
    EXPECT_EQ(Read(names.now().NextId()), Of(2, 12));
  }
}

TEST(NameScopeTest, AnExhaustedScopeGivesOwnNames) {
  SessionNames names(kSession);
  names.Begin(2);
  NameScope scope = names.now().Take({2, 1});
  EXPECT_EQ(Read(scope.NextId()), Of(2, 0));
  EXPECT_TRUE(Read(scope.ReserveIds(2)).own) << "of which it has one";
  EXPECT_EQ(Read(scope.NextId()), Of(2, 1));
  EXPECT_TRUE(Read(scope.NextId()).own);
  EXPECT_EQ(Read(scope.NextOp(HostId(1)).v), Of(2, OpCount(0, false)));
  EXPECT_EQ(Read(scope.NextOp(HostId(2)).v), Of(2, OpCount(0, false)));
  EXPECT_TRUE(Read(scope.NextOp(HostId(1)).v).own);
  EXPECT_TRUE(Read(scope.NextOpOfAll(true).v).own);
  EXPECT_EQ(Read(names.now().NextId()), Of(2, 2));
}

TEST(NameScopeTest, RequestsThatNeedTooManyNamesAreRefused) {
  SessionNames names(kSession);
  names.Begin(1);
  EXPECT_TRUE(names.now().CheckRoom({RequestName::kMostCounts - 1, 1}).ok());
  EXPECT_EQ(names.now().CheckRoom({RequestName::kMostCounts + 1, 1}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(names.now().CheckRoom({1, RequestName::kMostCounts}).code(), absl::StatusCode::kResourceExhausted);
  // With this request's number, a large count has no room: own names stand in for it.
  names.Begin(uint64_t{1} << 40);
  EXPECT_TRUE(names.now().CheckRoom({100, 1}).ok());
  EXPECT_TRUE(names.now().CheckRoom({RequestName::kOwnBlock, 1}).ok());
  EXPECT_TRUE(Read(names.now().ReserveIds(RequestName::kOwnBlock)).own);
  EXPECT_EQ(names.now().CheckRoom({RequestName::kOwnBlock + 1, 1}).code(), absl::StatusCode::kResourceExhausted);
}

TEST(NameScopeTest, RequestsWithTooLargeANumberAreRefused) {
  SessionNames names(kSession);
  for (uint64_t bits = 1; bits < 64; ++bits) {
    names.Begin(uint64_t{1} << bits);
    const absl::Status room = names.now().CheckRoom({1, 1});
    EXPECT_EQ(room.ok(), bits < 47) << bits << ": " << room;
    EXPECT_EQ(Read(names.now().NextId()).own, bits >= 47) << bits << ": nothing is cut off";
  }
}

TEST(OwnNamesTest, NeighboursAreInOneBlock) {
  OwnNames own(kSession);
  std::set<std::pair<uint64_t, uint64_t>> ends;
  for (uint64_t count : {uint64_t{1}, RequestName::kOwnBlock - 1, uint64_t{2}, RequestName::kOwnBlock, uint64_t{5}}) {
    const std::optional<RequestName> first = own.TakeIds(count);
    ASSERT_TRUE(first.has_value());
    EXPECT_LE(first->count + count, RequestName::kOwnBlock);
    EXPECT_TRUE(ends.emplace(first->request, first->count).second);
  }
  EXPECT_FALSE(own.TakeIds(RequestName::kOwnBlock + 1).has_value());
  EXPECT_FALSE(own.TakeIds(0).has_value());
}

TEST(OwnNamesTest, TheyEndAndAreNotCountedFromTheBeginning) {
  OwnNames own(SessionId(uint64_t{1} << 32));  // the largest sessions have one block
  EXPECT_TRUE(own.CheckRoom({RequestName::kOwnBlock, 1}).ok());
  EXPECT_TRUE(own.TakeIds(RequestName::kOwnBlock).has_value());
  EXPECT_FALSE(own.TakeIds(1).has_value());
  EXPECT_EQ(own.CheckRoom({1, 1}).code(), absl::StatusCode::kResourceExhausted);
}

TEST(NameNeedTest, ASumIsNeverSmallerThanItsParts) {
  NameNeed need{1, 1};
  for (int i = 0; i < 70; ++i) {
    const NameNeed before = need;
    need += before;  // as branches within branches
    EXPECT_GE(need.ids, before.ids);
    EXPECT_GE(need.ops, before.ops);
  }
  EXPECT_GT(need.ids, RequestName::kMostCounts);
  SessionNames names(kSession);
  names.Begin(1);
  EXPECT_EQ(names.now().CheckRoom(need).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Larger({1, 5}, {3, 2}).ids, 3u);
  EXPECT_EQ(Larger({1, 5}, {3, 2}).ops, 5u);
}

// Does random work: each piece of it makes names, maybe at once, maybe when its turn comes later, and gives some to work within it.
class RandomWork {
 public:
  explicit RandomWork(uint32_t seed) : seed_(seed) {}

  // Returns the names of all pieces, by path. Of two runs only the order in which pieces have their turns differs.
  std::map<std::vector<int>, std::vector<uint64_t>> Run(uint32_t order) {
    made_.clear();
    later_.clear();
    SessionNames names(kSession);
    names.Begin(11);
    Begin({}, names.now().Take(Need({})), 0);
    std::mt19937 turns(order);
    while (!later_.empty()) {
      const size_t next = turns() % later_.size();
      std::swap(later_[next], later_.back());
      Piece piece = std::move(later_.back());
      later_.pop_back();
      if (turns() % 3 == 0) names.now().NextOp(HostId(turns() % 3));  // what others do meanwhile
      Make(piece);
    }
    return made_;
  }

 private:
  struct Piece {
    std::vector<int> path;
    NameScope names;
    int depth;
  };
  uint32_t Choice(const std::vector<int>& path, uint32_t what, uint32_t below) const {
    uint32_t hash = seed_ * 31 + what;
    for (int step : path) hash = hash * 1'000'003 + static_cast<uint32_t>(step) + 1;
    return std::mt19937(hash)() % below;
  }
  uint32_t Children(const std::vector<int>& path) const { return path.size() >= 3 ? 0 : Choice(path, 1, 4); }
  NameNeed Need(const std::vector<int>& path) const {
    NameNeed need{Choice(path, 2, 5), Choice(path, 3, 3)};
    for (uint32_t c = 0; c < Children(path); ++c) need += Need(Child(path, c));
    return need;
  }
  static std::vector<int> Child(std::vector<int> path, uint32_t c) {
    path.push_back(static_cast<int>(c));
    return path;
  }
  void Begin(const std::vector<int>& path, NameScope names, int depth) { later_.push_back({path, std::move(names), depth}); }
  void Make(Piece& piece) {
    for (uint32_t c = 0; c < Children(piece.path); ++c) {
      const std::vector<int> child = Child(piece.path, c);
      Begin(child, piece.names.Take(Need(child)), piece.depth + 1);
    }
    std::vector<uint64_t>& made = made_[piece.path];
    for (uint32_t i = 0; i < Choice(piece.path, 2, 5); ++i) made.push_back(piece.names.NextId());
    for (uint32_t i = 0; i < Choice(piece.path, 3, 3); ++i) ops_.insert(piece.names.NextOp(HostId(1)).v);
  }

  const uint32_t seed_;
  std::vector<Piece> later_;
  std::map<std::vector<int>, std::vector<uint64_t>> made_;
  std::set<uint64_t> ops_;
};

TEST(NameScopeTest, TheOrderInWhichWorkGoesOnChangesNoName) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    RandomWork work(seed);
    const auto names = work.Run(1);
    std::set<uint64_t> all;
    for (const auto& [path, made] : names) {
      for (uint64_t name : made) {
        EXPECT_FALSE(Read(name).own) << "seed " << seed;
        EXPECT_TRUE(all.insert(name).second) << "seed " << seed << ": a name was given twice";
      }
    }
    for (uint32_t order = 2; order <= 5; ++order) ASSERT_EQ(work.Run(order), names) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pw::controller
