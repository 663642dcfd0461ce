#include "pathways/worker/store/launch_order.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Order : public testing::Test {
 protected:
  struct Task {
    LaunchOrder::Turn turn;
    Hazards::TaskRef task = std::make_shared<Hazards::Task>();
  };
  // An execution that waits only for its turn.
  void Arrive(const std::string& name, uint64_t gang, const std::vector<int>* devices, uint64_t session = 1) {
    Task& t = tasks_[name];
    t.task->run = [this, name, &t](const absl::Status&) {
      log.push_back(t.turn.refused.ok() ? name : name + "!");
      order.Leave(&t.turn);
      return Hazards::Outcome::kDone;
    };
    order.Enter(&t.turn, gang, SessionId(session), devices, t.task);
    hazards.Submit(t.task);
  }
  // An execution that waits at the head until Input.
  void ArriveWaiting(const std::string& name, const std::vector<int>* devices) {
    hazards.Hold(tasks_[name].task);
    Arrive(name, 0, devices);
  }
  const Hazards::TaskRef& TaskOf(const std::string& name) { return tasks_[name].task; }
  void Input(const std::string& name) { hazards.Release(tasks_[name].task); }
  void Grant(std::vector<uint64_t> gangs) {
    v1::Grant grant;
    for (uint64_t gang : gangs) grant.add_gangs(gang);
    order.Grant(grant);
  }

  Hazards hazards;
  LaunchOrder order{3, &hazards};
  std::vector<std::string> log;
  const std::vector<int> d0 = {0}, d1 = {1}, d01 = {0, 1};

 private:
  std::map<std::string, Task> tasks_;
};

TEST_F(Order, WhatIsGrantedWithItsCommandIsLaunchedAtOnce) {
  Arrive("a", 0, &d01);
  Arrive("b", 0, &d0);
  EXPECT_THAT(log, ElementsAre("a", "b"));
  EXPECT_EQ(order.held(), 0);
}

TEST_F(Order, LaunchesInTheOrderOfGrantsNotOfArrival) {
  Arrive("a", 7, &d01);
  Arrive("b", 8, &d01);
  Arrive("c", 0, &d1);
  EXPECT_THAT(log, ElementsAre("c"));
  Grant({8, 7});
  EXPECT_THAT(log, ElementsAre("c", "b", "a"));
}

TEST_F(Order, NothingOvertakesTheHeadOfADevice) {
  ArriveWaiting("a", &d01);
  Arrive("b", 0, &d0);
  Arrive("c", 9, &d1);
  Grant({9});
  EXPECT_THAT(log, IsEmpty());
  EXPECT_EQ(order.held(), 2);
  Input("a");
  EXPECT_THAT(log, ElementsAre("a", "b", "c"));
  EXPECT_EQ(hazards.parked(), 0);
}

TEST_F(Order, WhatIsRefusedFailsWithoutItsTurn) {
  ArriveWaiting("a", &d0);
  Arrive("b", 5, &d0);
  Arrive("c", 0, &d0);
  v1::Grant grant;
  auto* refused = grant.add_refused();
  refused->set_gang(5);
  refused->mutable_status()->set_code(14);
  order.Grant(grant);
  EXPECT_THAT(log, ElementsAre("b!"));
  Input("a");
  EXPECT_THAT(log, ElementsAre("b!", "a", "c"));
}

TEST_F(Order, AnEndedSessionsUngrantedWorkFailsAndTheRestStays) {
  Arrive("a", 5, &d0, 1);
  Arrive("b", 6, &d0, 2);
  order.ReleaseOwner(SessionId(1));
  EXPECT_THAT(log, ElementsAre("a!"));
  Grant({5, 6});
  EXPECT_THAT(log, ElementsAre("a!", "b"));
}

TEST_F(Order, DeviceTimeIsCountedOnce) {
  const absl::Time t = absl::FromUnixSeconds(10);
  EXPECT_EQ(order.Charge(d01, t, t + absl::Microseconds(30)), 60);
  EXPECT_EQ(order.Charge(d0, t + absl::Microseconds(10), t + absl::Microseconds(40)), 10);  // waited for the first
  EXPECT_EQ(order.Charge(d1, t + absl::Microseconds(50), t + absl::Microseconds(55)), 5);
  // The runtime's times count, in whichever order they are reported.
  EXPECT_EQ(order.Charge(d0, {t + absl::Microseconds(80), t + absl::Microseconds(90)}), 10);
  EXPECT_EQ(order.Charge(d0, {t + absl::Microseconds(60), t + absl::Microseconds(75)}), 15);
  EXPECT_EQ(order.ended(), 5u);
}

// The whole worker: the simulated runtime executes in the order of grants on every device.
class LaunchOrderInAWorker : public testing::Test {
 protected:
  // Operation 2 makes 20 from 10 and 10, once gang 77 is granted.
  LaunchOrderInAWorker() {
    worker.Compile(1, "args=2 outputs=1 dims=2");
    worker.Settle();
    worker.Put(1, 10, {1, 2});
    v1::Command command;
    auto* e = command.mutable_execute();
    e->set_op(2);
    e->set_executable(1);
    e->set_session(1);
    e->add_args(10);
    e->add_args(10);
    e->add_results(20);
    e->set_grant(77);
    worker.Do(command);
  }

  WorkerHarness worker;
};

TEST_F(LaunchOrderInAWorker, AGrantLetsAnExecutionGo) {
  worker.Settle();
  EXPECT_FALSE(worker.connection.done.contains(2));
  v1::Command grant;
  grant.mutable_grant()->add_gangs(77);
  worker.Do(grant);
  worker.Settle();
  ASSERT_TRUE(worker.connection.done.contains(2));
  EXPECT_TRUE(worker.connection.done[2].ok()) << worker.connection.done[2];
  EXPECT_THAT(worker.Read(20, 0), ElementsAre(4, 7) /* 1 + a + 2a */);
}

TEST_F(LaunchOrderInAWorker, AClientsEndEndsWhatWaitsForAGrant) {
  worker.ReleaseOwner(1);
  worker.Settle();
  EXPECT_EQ(worker.connection.done[2].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(worker.Memory().devices(0).used_bytes(), 0);
}

//---- leases

TEST_F(Order, ALeaseKeepsItsPlaceForExecutionsThatComeLater) {
  order.OpenLease(1, /*granted=*/true, SessionId(1), d01);
  Arrive("other", 0, &d0);
  EXPECT_THAT(log, IsEmpty());
  Arrive("turn 1", 1, &d01);
  Arrive("turn 2", 1, &d0);
  EXPECT_THAT(log, ElementsAre("turn 1", "turn 2"));
  order.CloseLease(1);
  EXPECT_THAT(log, ElementsAre("turn 1", "turn 2", "other"));
  EXPECT_EQ(order.held(), 0);
}

TEST_F(Order, ALeaseWaitsForItsGrantAndForThoseBeforeIt) {
  order.OpenLease(1, false, SessionId(1), d01);
  ArriveWaiting("before", &d1);
  Arrive("turn 1", 1, &d01);
  Arrive("turn 2", 1, &d0);
  Arrive("apart", 0, &d0);
  EXPECT_THAT(log, ElementsAre("apart"));
  Grant({1});
  Arrive("turn 3", 1, &d0);
  EXPECT_THAT(log, ElementsAre("apart"));
  Input("before");
  EXPECT_THAT(log, ElementsAre("apart", "before", "turn 1", "turn 2", "turn 3"));
  Arrive("after", 0, &d1);
  order.CloseLease(1);
  EXPECT_THAT(log, ElementsAre("apart", "before", "turn 1", "turn 2", "turn 3", "after"));
}

TEST_F(Order, ALeaseThatIsClosedBeforeItsGrantKeepsItsExecutions) {
  order.OpenLease(1, false, SessionId(1), d0);
  Arrive("turn", 1, &d0);
  order.CloseLease(1);
  EXPECT_THAT(log, IsEmpty());
  Grant({1});
  Arrive("after", 0, &d0);
  EXPECT_THAT(log, ElementsAre("turn", "after"));
}

TEST_F(Order, AnEmptyLeaseThatIsClosedBeforeItsGrantIsForgotten) {
  order.OpenLease(1, false, SessionId(1), d0);
  order.CloseLease(1);
  Grant({1});
  Arrive("after", 0, &d0);
  EXPECT_THAT(log, ElementsAre("after"));
}

TEST_F(Order, LeasesFollowEachOther) {
  order.OpenLease(1, true, SessionId(1), d0);
  order.OpenLease(2, true, SessionId(1), d0);
  Arrive("second", 2, &d0);
  Arrive("first", 1, &d0);
  EXPECT_THAT(log, ElementsAre("first"));
  order.CloseLease(1);
  EXPECT_THAT(log, ElementsAre("first", "second"));
  order.CloseLease(2);
  EXPECT_EQ(order.held(), 0);
}

TEST_F(Order, AnExecutionInALeaseThatWaitsForInputsKeepsTheOthers) {
  order.OpenLease(1, true, SessionId(1), d0);
  hazards.Hold(TaskOf("turn 1"));
  Arrive("turn 1", 1, &d0);
  Arrive("turn 2", 1, &d0);
  order.CloseLease(1);
  Arrive("after", 0, &d0);
  EXPECT_THAT(log, IsEmpty());
  Input("turn 1");
  EXPECT_THAT(log, ElementsAre("turn 1", "turn 2", "after"));
}

TEST_F(Order, ARefusedLeaseFailsItsExecutions) {
  order.OpenLease(1, false, SessionId(7), d0);
  Arrive("turn 1", 1, &d0, 7);
  order.ReleaseOwner(SessionId(7));
  Arrive("turn 2", 1, &d0, 7);
  Arrive("after", 0, &d0);
  EXPECT_THAT(log, ElementsAre("turn 1!", "turn 2!", "after"));
  order.CloseLease(1);
  EXPECT_EQ(order.held(), 0);
}

TEST_F(Order, AnExecutionOutsideTheDevicesOfItsLeaseIsRefused) {
  order.OpenLease(1, true, SessionId(1), d0);
  Arrive("turn", 1, &d01);
  EXPECT_THAT(log, ElementsAre("turn!"));
}

}  // namespace
}  // namespace pw::worker
