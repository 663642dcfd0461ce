// Workers of hosts 1, 2 and 3 on an in-memory transport that report through one of them.
#include "pathways/worker/housekeeping/report_path.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Manual time.
class HandTime : public Clock, public Timers {
 public:
  absl::Time Now() override { return now_; }
  void After(absl::Duration delay, Executor* executor, Task task) override {
    entries_.emplace(now_ + delay, std::pair(executor, std::move(task)));
  }
  // Posts the next task due by `end` and returns true. If there is none, advances to `end` and returns false.
  bool Step(absl::Time end) {
    if (entries_.empty() || entries_.begin()->first > end) {
      now_ = end;
      return false;
    }
    now_ = std::max(now_, entries_.begin()->first);
    auto [executor, task] = std::move(entries_.begin()->second);
    entries_.erase(entries_.begin());
    executor->Post(std::move(task));
    return true;
  }

 private:
  absl::Time now_ = absl::FromUnixSeconds(1000);
  std::multimap<absl::Time, std::pair<Executor*, Task>> entries_;
};

class ReportPathTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kHosts = 3;

  ReportPathTest() {
    for (uint32_t host = 1; host <= kHosts; ++host) {
      WorkerHarness::Setup setup;
      setup.host = host;
      setup.executor = &executor_;
      setup.transport = &transport_;
      setup.clock = &time_;
      setup.timers = &time_;
      hosts_.push_back(std::make_unique<WorkerHarness>(setup));
      listeners_.push_back(*transport_.Listen(Address(host), [this, host](std::unique_ptr<net::Connection> connection) {
        auto shared = std::make_shared<std::unique_ptr<net::Connection>>(std::move(connection));
        WorkerHarness* w = hosts_[host - 1].get();
        w->strand.Post([w, shared] {
          if (w->worker != nullptr) w->worker->peers().Accept(std::move(*shared));
        });
      }));
    }
    ReportThrough(1);
  }
  ~ReportPathTest() override {
    for (uint32_t host = 1; host <= kHosts; ++host) End(host);
  }

  WorkerHarness& On(uint32_t host) { return *hosts_[host - 1]; }
  // Tells the existing hosts to report through `speaker`; 0: each reports directly.
  void ReportThrough(uint32_t speaker) {
    v1::Command command;
    for (uint32_t host = 1; host <= kHosts; ++host) {
      if (On(host).worker == nullptr) continue;
      auto* peer = command.mutable_peers()->add_peers();
      peer->set_host(host);
      peer->set_address(Address(host));
      if (speaker != 0) peer->set_reports_through(speaker);
    }
    for (auto& host : hosts_) {
      if (host->worker != nullptr) host->Do(command);
    }
    Settle();
  }
  void End(uint32_t host) {
    On(host).worker = nullptr;
    Settle();
  }
  void Settle() {
    for (int i = 0; i < 3; ++i) {
      for (auto& host : hosts_) host->Settle();
    }
  }
  void Pass(absl::Duration duration) {
    const absl::Time end = time_.Now() + duration;
    Settle();
    while (time_.Step(end)) Settle();
  }
  // The host runs a command and reports `op`.
  void Complete(uint32_t host, uint64_t op) {
    On(host).Put(NamedOp(op), 1000 + op, {1, 2});
    Settle();
  }
  // The controller tells the host that it has seen reports up to `number`.
  void Seen(uint32_t host, uint64_t number) {
    v1::ToWorker batch;
    batch.set_reports_seen(number);
    On(host).strand.Post([w = &On(host), batch] { EXPECT_TRUE(w->worker->Handle(batch, Bytes()).ok()); });
    Settle();
  }
  // The ops that the host has reported to the controller directly.
  std::vector<uint64_t> Straight(uint32_t host) {
    std::vector<uint64_t> ops;
    for (const auto& [op, status] : On(host).connection.done) ops.push_back(NumberOf(op));
    return ops;
  }
  // The joined reports that a host has sent, one string per frame: "HOST:NUMBER:OP ...".
  std::vector<std::string> Joined(uint32_t host) {
    std::vector<std::string> frames;
    for (const v1::Joined& joined : On(host).connection.joined) {
      std::string& text = frames.emplace_back();
      for (const v1::Report& report : joined.reports()) {
        for (uint64_t op : report.done().ok())
          absl::StrAppend(&text, text.empty() ? "" : " ", report.host(), ":", report.number(), ":", NumberOf(op));
      }
    }
    return frames;
  }

  static std::string Address(uint32_t host) { return absl::StrCat("host", host, ":1"); }

  HandTime time_;
  ManualExecutor executor_;
  net::MemoryNetwork network_;
  net::MemoryTransport transport_{&network_, &executor_};
  std::vector<std::unique_ptr<WorkerHarness>> hosts_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
};

TEST_F(ReportPathTest, WhatAllHaveReportedLeavesAsOneFrame) {
  Complete(2, 21);
  Complete(1, 11);
  EXPECT_THAT(Joined(1), IsEmpty());
  Complete(3, 31);
  EXPECT_THAT(Joined(1), UnorderedElementsAre("2:1:21 1:0:11 3:1:31"));
  for (uint32_t host : {1, 2, 3}) EXPECT_THAT(Straight(host), IsEmpty());
}

TEST_F(ReportPathTest, NobodyWaitsLongForOthers) {
  Complete(2, 21);
  Pass(ReportPath::kHold / 2);
  Complete(3, 31);
  EXPECT_THAT(Joined(1), IsEmpty());
  Pass(ReportPath::kHold / 2);
  EXPECT_THAT(Joined(1), IsEmpty()) << "one has just come";
  Pass(ReportPath::kHold / 2);
  EXPECT_THAT(Joined(1), UnorderedElementsAre("2:1:21 3:1:31"));
  Complete(1, 11);
  Pass(ReportPath::kHold);
  EXPECT_THAT(Joined(1), UnorderedElementsAre("2:1:21 3:1:31", "1:0:11"));
}

TEST_F(ReportPathTest, NorForThoseThatComeOneAfterAnother) {
  uint64_t op = 21;
  for (absl::Duration passed; passed < ReportPath::kLongestHold; passed += ReportPath::kHold / 2) {
    EXPECT_THAT(Joined(1), IsEmpty());
    Complete(2, op);
    op += 2;
    Pass(ReportPath::kHold / 2);
  }
  EXPECT_THAT(Joined(1), SizeIs(1));
}

TEST_F(ReportPathTest, WhatOneHostDoesAloneAndWhatFailsComesStraight) {
  Complete(2, 22);
  On(2).Execute(NamedOp(23), 77, {}, {2000});  // there is no such executable
  Settle();
  EXPECT_THAT(Straight(2), UnorderedElementsAre(22, 23));
  EXPECT_FALSE(On(2).connection.done.at(NamedOp(23)).ok());
}

TEST_F(ReportPathTest, WhatHasBeenSeenDoesNotComeAgain) {
  Complete(2, 21);
  Complete(2, 23);
  Seen(2, 2);
  Pass(2 * ReportPath::kPatience);
  EXPECT_THAT(Straight(2), IsEmpty());
}

TEST_F(ReportPathTest, WhatIsNotSeenComesStraightAndSoDoesTheRestWhileInDoubt) {
  Complete(2, 21);
  Pass(ReportPath::kPatience / 2);
  Complete(2, 23);
  EXPECT_THAT(Straight(2), IsEmpty());
  Pass(ReportPath::kPatience / 2);
  EXPECT_THAT(Straight(2), UnorderedElementsAre(21, 23)) << "all of it";
  Complete(2, 25);
  EXPECT_THAT(Straight(2), UnorderedElementsAre(21, 23, 25)) << "at once";
  Seen(2, 2);  // the path was slow
  Complete(2, 27);
  EXPECT_THAT(Straight(2), UnorderedElementsAre(21, 23, 25));
  Pass(ReportPath::kHold);
  EXPECT_THAT(Joined(1).back(), "2:3:27");
}

TEST_F(ReportPathTest, WhatWasGivenToAHostThatDiesComesStraight) {
  Complete(2, 21);
  Complete(3, 31);
  EXPECT_THAT(Straight(2), IsEmpty());
  End(1);
  EXPECT_THAT(Straight(2), UnorderedElementsAre(21));
  EXPECT_THAT(Straight(3), UnorderedElementsAre(31));
  Complete(2, 23);
  EXPECT_THAT(Straight(2), UnorderedElementsAre(21, 23));
}

TEST_F(ReportPathTest, AnotherThatSpeaksIsTrustedAtOnce) {
  Complete(3, 31);
  End(1);
  ReportThrough(2);
  EXPECT_THAT(Straight(3), UnorderedElementsAre(31));
  Complete(2, 21);
  Complete(3, 33);
  EXPECT_THAT(Joined(2), UnorderedElementsAre("2:0:21 3:2:33")) << "of two that are left";
  EXPECT_THAT(Straight(2), IsEmpty());
}

TEST_F(ReportPathTest, WhoIsSpokenForNoMoreBringsWhatItKeeps) {
  Complete(2, 21);
  ReportThrough(0);
  EXPECT_THAT(Straight(2), UnorderedElementsAre(21));
  Complete(2, 23);
  EXPECT_THAT(Straight(2), UnorderedElementsAre(21, 23));
  EXPECT_THAT(Joined(1), UnorderedElementsAre("2:1:21")) << "which the controller knows by then, or not";
}

}  // namespace
}  // namespace pw::worker
