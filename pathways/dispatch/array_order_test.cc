#include "pathways/dispatch/array_order.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pw::dispatch {
namespace {

using ::testing::ElementsAre;

constexpr SessionId kSession{1};

struct Log {
  ArrayOrder order;
  std::vector<std::string> begun;
  std::map<std::string, ArrayOrder::Ticket> tickets;

  void Begin(const std::string& name, std::vector<uint64_t> reads, std::vector<uint64_t> changes, SessionId session = kSession) {
    ArrayOrder::Names names;
    for (uint64_t id : reads) names.reads.push_back(ArrayId(id));
    for (uint64_t id : changes) names.changes.push_back(ArrayId(id));
    order.Begin(session, names, [this, name](ArrayOrder::Ticket ticket) {
      begun.push_back(name);
      tickets[name] = ticket;
    });
  }
  void End(const std::string& name) { order.End(tickets.at(name)); }
  void DoLater(const std::string& name, std::vector<uint64_t> arrays) {
    std::vector<ArrayId> ids;
    for (uint64_t id : arrays) ids.push_back(ArrayId(id));
    order.DoLater(std::move(ids), [this, name] { begun.push_back(name); });
  }
  bool MustWait(uint64_t array) const {
    const ArrayId id(array);
    return order.MustWait({&id, 1});
  }
};

TEST(ArrayOrderTest, ReadersOfOneArrayGoTogetherAndWhoChangesItWaits) {
  Log log;
  log.Begin("reads 1", {1}, {11});
  log.Begin("reads 1 too", {1}, {12});
  log.Begin("changes 1", {}, {1});
  log.Begin("reads the new 1", {1}, {13});
  EXPECT_THAT(log.begun, ElementsAre("reads 1", "reads 1 too"));
  log.End("reads 1");
  EXPECT_THAT(log.begun, ElementsAre("reads 1", "reads 1 too"));
  log.End("reads 1 too");
  EXPECT_THAT(log.begun, ElementsAre("reads 1", "reads 1 too", "changes 1"));
  log.End("changes 1");
  EXPECT_EQ(log.begun.back(), "reads the new 1");
  log.End("reads the new 1");
  EXPECT_TRUE(log.order.empty());
  EXPECT_FALSE(log.MustWait(1));
}

TEST(ArrayOrderTest, WhatWaitsKeepsWhatNamesItsArraysWaitingAndNothingElse) {
  Log log;
  log.Begin("makes 1", {}, {1});
  log.DoLater("takes 1, makes 2", {1, 2});
  log.DoLater("takes 2", {2});
  EXPECT_TRUE(log.MustWait(2));
  EXPECT_FALSE(log.MustWait(3));
  log.Begin("takes 3", {3}, {4});
  EXPECT_THAT(log.begun, ElementsAre("makes 1", "takes 3"));
  log.End("makes 1");
  EXPECT_THAT(log.begun, ElementsAre("makes 1", "takes 3", "takes 1, makes 2", "takes 2"));
  log.End("takes 3");
  EXPECT_TRUE(log.order.empty());
}

TEST(ArrayOrderTest, WhatIsForTheEndOfAllComesBehindAllOfTheSession) {
  Log log;
  log.Begin("mine", {1}, {2});
  log.Begin("another's", {3}, {4}, SessionId(2));
  log.DoLater("mine too", {2});
  log.order.DoAfterAll(kSession, [&] { log.begun.push_back("behind"); });
  EXPECT_THAT(log.begun, ElementsAre("mine", "another's"));
  log.End("mine");
  EXPECT_THAT(log.begun, ElementsAre("mine", "another's", "mine too", "behind"));
  log.order.DoAfterAll(kSession, [&] { log.begun.push_back("at once"); });
  EXPECT_EQ(log.begun.back(), "at once");
}

TEST(ArrayOrderTest, ASessionsEndBeginsAndEndsAllOfItsWork) {
  Log log;
  log.Begin("first", {}, {1});
  log.Begin("second", {1}, {2});
  log.DoLater("third", {2});
  log.Begin("another's", {3}, {4}, SessionId(2));
  log.order.EndSession(kSession);
  EXPECT_THAT(log.begun, ElementsAre("first", "another's", "second", "third"));
  EXPECT_FALSE(log.MustWait(1) || log.MustWait(2));
  EXPECT_TRUE(log.MustWait(4));
  log.End("second");  // its hosts answer later
  log.End("another's");
  EXPECT_TRUE(log.order.empty());
}

TEST(ArrayOrderTest, ALongChainUsesConstantStack) {
  Log log;
  log.Begin("first", {}, {0});
  for (uint64_t i = 0; i < 200'000; ++i) log.DoLater("", {i, i + 1});
  log.End("first");
  EXPECT_EQ(log.begun.size(), 200'001u);
  EXPECT_TRUE(log.order.empty());
}

// Checks AO-1 and AO-2 for all pairs of items.
TEST(ArrayOrderTest, RandomWorkKeepsItsOrder) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t n) { return random() % n; };
  struct Work {
    std::vector<ArrayId> reads, changes;
    ArrayOrder::Ticket ticket = 0;
    bool ended = false;
  };
  const auto meet = [](const std::vector<ArrayId>& a, const std::vector<ArrayId>& b) {
    return std::any_of(a.begin(), a.end(), [&](ArrayId id) { return std::count(b.begin(), b.end(), id) > 0; });
  };
  for (int round = 0; round < 200; ++round) {
    ArrayOrder order;
    std::vector<Work> all(40);
    const auto end_one = [&](size_t from) {
      for (size_t i = 0; i < all.size(); ++i) {
        Work& work = all[(from + i) % all.size()];
        if (work.ticket == 0 || work.ended) continue;
        work.ended = true;
        order.End(work.ticket);
        return true;
      }
      return false;
    };
    for (Work& work : all) {
      for (uint64_t n = below(3); n > 0; --n) work.reads.push_back(ArrayId(below(8)));
      for (uint64_t n = below(2); n > 0; --n) work.changes.push_back(ArrayId(below(8)));
      bool waits = false;
      for (const Work& other : all) {
        if (&other == &work) break;
        waits |= !other.ended &&
                 (meet(work.changes, other.changes) || meet(work.changes, other.reads) || meet(work.reads, other.changes));
      }
      order.Begin(kSession, {work.reads, work.changes}, [&](ArrayOrder::Ticket ticket) {
        EXPECT_EQ(work.ticket, 0u);
        work.ticket = ticket;
        for (const Work& other : all) {
          if (&other == &work) break;
          EXPECT_TRUE(other.ended ||
                      !(meet(work.changes, other.changes) || meet(work.changes, other.reads) || meet(work.reads, other.changes)));
        }
      });
      EXPECT_EQ(work.ticket == 0, waits);
      if (below(2) == 0) end_one(below(all.size()));
    }
    while (end_one(0)) {
    }
    EXPECT_TRUE(order.empty());
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](const Work& work) { return work.ended; }));
    for (uint64_t id = 0; id < 8; ++id) EXPECT_FALSE(order.MustWait(std::vector<ArrayId>{ArrayId(id)}));
  }
}

}  // namespace
}  // namespace pw::dispatch
