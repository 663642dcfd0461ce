// Tests runtimes whose peers are lost, and whose ways break.
#include <algorithm>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/dataflow/testing/forwarding.h"
#include "pathways/dataflow/testing/loose_links.h"

namespace pw::dataflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(RuntimeLosses, LosingAHostEndsExactlyTheRunsThatDependOnIt) {
  for (bool membership : {false, true}) {
    RuntimeWorld world(4, 1, WithForward());
    Outcome with, without;
    world.at(0).Start(Chain(world.at(0), Over(3, 2), "never"), with.Options());
    const RunId other = world.at(0).Start(Chain(world.at(0), Over(2, 2), "never"), without.Options());
    world.Settle();
    world.Kill(2);
    if (membership) world.TellLost(2);
    world.Settle();
    ASSERT_THAT(with.done, SizeIs(1));
    EXPECT_EQ(with.done[0].code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(with.done[0].message(), HasSubstr("host 2"));
    EXPECT_THAT(without.done, IsEmpty());
    EXPECT_EQ(world.at(1).live_runs(), 1u);
    // Later runs that need the lost host fail at once; the others go on.
    Outcome later, fine;
    EXPECT_EQ(world.at(0).Install(*Graph::Create({{"a", "forward", "", Over(3, 1)}}, {})).status().code(),
              absl::StatusCode::kUnavailable);
    world.at(0).Start(Chain(world.at(0), Over(2, 2)), fine.Options());
    world.at(0).Cancel(other, absl::CancelledError(""));
    world.Settle();
    EXPECT_THAT(fine.done, ElementsAre(absl::OkStatus()));
    world.ExpectNothingLeft();
  }
}

TEST(RuntimeLosses, LosingTheCoordinatorFreesItsRuns) {
  RuntimeWorld world(3, 1, WithForward());
  Outcome outcome;
  world.at(0).Start(Chain(world.at(0), Over(3, 2), "never"), outcome.Options());
  world.Settle();
  EXPECT_EQ(world.at(2).live_runs(), 1u);
  world.Kill(0);
  world.TellLost(0);
  world.Settle();
  world.ExpectNothingLeft();
}

// Arg → a → result, all one-to-one, with a result shard on host 0 for each. On host 2, `a` never ends.
GraphId Outliving(Runtime& runtime) {
  auto graph = Graph::Create(
      {{"arg", "forward", "", Over(3, 2)}, {"a", "not on 2", "", Over(3, 2)}, {"result", kResultOp, "", Over(1, 6)}},
      {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, false, true}, {NodeId(1), NodeId(2)}}, HostLoss::kFailsShards);
  auto id = runtime.Install(*graph);
  PW_CHECK(id.ok());
  return *id;
}

Operators NotOnHost2() {
  Operators operators = WithForward();
  operators.Add("not on 2", [](const OperatorContext& context) -> absl::StatusOr<std::unique_ptr<Operator>> {
    auto op = Forwarder();
    if (context.self == HostId(2)) op->on_inputs_closed = [](Shard&) {};
    return op;
  });
  return operators;
}

TEST(RuntimeLosses, ARunOfAGraphThatOutlivesItsHostsGoesOnWithoutALostOne) {
  RuntimeWorld world(3, 1, NotOnHost2());
  Outcome outcome, later;
  const GraphId graph = Outliving(world.at(0));
  world.at(0).Start(graph, outcome.Options());
  world.Settle();
  EXPECT_THAT(outcome.closed, IsEmpty());  // of host 1 come the tuples and its report, of host 2 nothing
  EXPECT_EQ(world.at(0).live_runs(), 1u);
  world.Kill(2);
  world.TellLost(2);
  world.Settle();
  const auto check = [](Outcome& run) {
    EXPECT_THAT(run.done, ElementsAre(absl::OkStatus()));  // the result node has handed the errors over
    ASSERT_THAT(run.closed, SizeIs(6));
    for (uint32_t s = 0; s < 4; ++s) {
      EXPECT_EQ((run.closed[{2, s}]), absl::OkStatus());
      EXPECT_THAT((run.tuples[{2, s}]), SizeIs(1));
    }
    for (uint32_t s = 4; s < 6; ++s) {
      EXPECT_EQ((run.closed[{2, s}].code()), absl::StatusCode::kUnavailable);
      EXPECT_THAT((run.closed[{2, s}].message()), HasSubstr("host 2"));
    }
  };
  check(outcome);
  world.ExpectNothingLeft();
  // A run that is started now begins without it.
  world.at(0).Start(graph, later.Options());
  world.Settle();
  check(later);
  world.ExpectNothingLeft();
}

// Arg → b → result: arg on hosts 1 and 2, b beside the other's, with a result shard on host 0 for each.
GraphId Crossed(Runtime& runtime, const std::string& arg, HostLoss host_loss) {
  const auto there = std::make_shared<const Placement>(*Placement::FromHosts(std::vector{HostId(1), HostId(2)}));
  const auto crossed = std::make_shared<const Placement>(*Placement::FromHosts(std::vector{HostId(2), HostId(1)}));
  auto graph = Graph::Create({{"arg", arg, "", there}, {"b", "forward", "", crossed}, {"result", kResultOp, "", Over(1, 2)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true, true}, {NodeId(1), NodeId(2)}}, host_loss);
  auto id = runtime.Install(*graph);
  PW_CHECK(id.ok());
  return *id;
}

// Neither of two hosts whose way broke is lost to the run: each misses what the other would have sent it.
TEST(RuntimeLosses, AWayThatBreaksBetweenOthersCostsARunThatOutlivesItsHostsOnlyWhatWouldTakeIt) {
  for (HostLoss host_loss : {HostLoss::kFailsShards, HostLoss::kEndsRuns}) {
    RuntimeWorld world(3, 1, WithForward());
    Outcome outcome, again;
    world.at(0).Start(Crossed(world.at(0), "never", host_loss), outcome.Options());
    world.Settle();
    world.Break(1, 2);
    world.Settle();
    if (host_loss == HostLoss::kEndsRuns) {
      ASSERT_THAT(outcome.done, SizeIs(1));
      EXPECT_EQ(outcome.done[0].code(), absl::StatusCode::kUnavailable);
    } else {
      EXPECT_THAT(outcome.done, IsEmpty());  // arg never ends
      EXPECT_THAT(outcome.closed, SizeIs(2));
      for (const auto& [shard, status] : outcome.closed) EXPECT_THAT(std::string(status.message()), HasSubstr("broke: cable"));
    }
    world.at(0).Start(Crossed(world.at(0), "forward", host_loss), again.Options());
    world.Settle();
    EXPECT_THAT(again.done, ElementsAre(absl::OkStatus()));
    EXPECT_THAT(again.tuples, SizeIs(2)) << "the way is there again";
  }
}

TEST(RuntimeLosses, AHostWhoseWayToTheCoordinatorBreaksIsLostToTheRun) {
  RuntimeWorld world(3, 1, WithForward());
  Outcome outcome, again;
  const GraphId never = Crossed(world.at(0), "never", HostLoss::kFailsShards);
  world.at(0).Start(never, outcome.Options());
  world.Settle();
  world.Break(0, 1);
  world.Settle();
  // Host 2 has been told, and reports the error of the shard that waits for host 1. Its own arg never ends, but has no reader.
  ASSERT_THAT(outcome.closed, SizeIs(2));
  for (const auto& [shard, status] : outcome.closed)
    EXPECT_THAT(std::string(status.message()), HasSubstr("between host 0 and host 1 broke"));
  EXPECT_EQ(world.at(1).live_runs(), 0u);
  EXPECT_EQ(world.at(2).live_runs(), 1u);
  world.at(0).Start(Crossed(world.at(0), "forward", HostLoss::kFailsShards), again.Options());
  world.Settle();
  EXPECT_THAT(again.done, ElementsAre(absl::OkStatus()));
  EXPECT_THAT(again.tuples, SizeIs(2));
}

// A host that cannot take part is lost to the run, as is one whose messages make no sense.
TEST(RuntimeLosses, AHostThatEndsARunThatOutlivesItsHostsIsLostToItAlone) {
  Operators operators = WithForward();
  operators.Add("not on 2", [](const OperatorContext& context) -> absl::StatusOr<std::unique_ptr<Operator>> {
    if (context.self == HostId(2)) return absl::UnimplementedError("no such thing here");
    return Forwarder();
  });
  RuntimeWorld world(3, 1, operators);
  Outcome outcome;
  world.at(0).Start(Outliving(world.at(0)), outcome.Options());
  world.Settle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
  ASSERT_THAT(outcome.closed, SizeIs(6));
  for (uint32_t s = 0; s < 6; ++s)
    EXPECT_EQ((outcome.closed[{2, s}]), s < 4 ? absl::OkStatus() : absl::UnimplementedError("no such thing here"));
  world.ExpectNothingLeft();
}

TEST(RuntimeLosses, ALostShardThatNobodyReadsIsTheRunsStatus) {
  for (bool read : {false, true}) {
    RuntimeWorld world(3, 1, NotOnHost2());
    std::vector<Node> nodes{{"a", "not on 2", "", Over(3, 1)}};
    std::vector<Edge> edges;
    if (read) {
      nodes.push_back({"result", kResultOp, "", Over(1, 3)});
      edges.push_back({NodeId(0), NodeId(1), EdgeKind::kOneToOne, true, true});
    }
    Outcome outcome;
    world.at(1).Start(*world.at(1).Install(*Graph::Create({{"a", "not on 2", "", Over(3, 1)}}, {}, HostLoss::kFailsShards)),
                      outcome.Options());
    world.at(0).Start(*world.at(0).Install(*Graph::Create(nodes, edges, HostLoss::kFailsShards)), outcome.Options());
    world.Settle();
    EXPECT_THAT(outcome.done, IsEmpty());
    world.Kill(2);
    world.TellLost(2);
    world.Settle();
    ASSERT_THAT(outcome.done, SizeIs(2));
    EXPECT_EQ(outcome.done[0].code() == outcome.done[1].code(), !read);
    EXPECT_EQ(std::count_if(outcome.done.begin(), outcome.done.end(), [](const absl::Status& s) { return s.ok(); }),
              read ? 1 : 0);
    world.ExpectNothingLeft();
  }
}

// A shard that waits for room on the way to a host goes on when the host is lost.
TEST(RuntimeLosses, AShardDoesNotWaitForRoomOnTheWayToALostHost) {
  RuntimeKnobs knobs;
  knobs.flow = {.window_bytes = 1 << 10, .high_water_bytes = 1 << 10, .hard_limit_bytes = 1 << 20};
  Operators operators;
  int stops = 0;
  operators.Add("pour", MakeOf([&stops] {
                  auto op = std::make_unique<FunctionOperator>();
                  auto sent = std::make_shared<int>(0);
                  op->on_inputs_closed = op->on_writable = [&stops, sent](Shard& shard) {
                    for (; *sent < 100; ++*sent) {
                      if (!shard.CanSend(shard.outputs()[0], 0)) return void(++stops);
                      shard.Send(shard.outputs()[0], 0, TupleOf(std::string(512, 'x')));
                    }
                    shard.Finish();
                  };
                  return op;
                }));
  ManualExecutor executor(1);
  Strand strand(&executor);
  ManualClock clock;
  LooseLinks links;
  Runtime runtime({HostId(0), &strand, &clock, nullptr, &links, &operators}, knobs);
  auto graph = Graph::Create({{"a", "pour", "", Over(1, 1)}, {"b", "pour", "", Over(1, 1, 1)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true}}, HostLoss::kFailsShards);
  Outcome outcome;
  runtime.Start(*runtime.Install(*graph), outcome.Options());
  executor.RunUntilIdle();
  EXPECT_GT(stops, 0);
  EXPECT_THAT(outcome.done, IsEmpty());
  links.handler->OnPeerLost(HostId(1), absl::UnavailableError("gone"));
  executor.RunUntilIdle();
  ASSERT_THAT(outcome.done, SizeIs(1));
  EXPECT_EQ(outcome.done[0].code(), absl::StatusCode::kUnavailable);  // no shard reads b
  EXPECT_EQ(runtime.live_runs(), 0u);
}

TEST(RuntimeLosses, AWayThatBreaksEndsTheRunsThatUseItAndNothingElse) {
  ManualExecutor executor(1);
  Strand strand(&executor);
  ManualClock clock;
  LooseLinks links;
  const Operators operators = WithForward();
  Runtime runtime({HostId(0), &strand, &clock, nullptr, &links, &operators}, {});
  auto asks = [&](uint32_t host) {
    return *runtime.Install(*Graph::Create({{"a", "forward", "", Over(1, 1, host)}, {"r", kResultOp, "", Over(1, 1)}},
                                           {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true}}));
  };
  const GraphId of_one = asks(1), of_two = asks(2);
  Outcome one, two, again;
  runtime.Start(of_one, one.Options());
  runtime.Start(of_two, two.Options());
  executor.RunUntilIdle();
  links.handler->OnPeerBroken(HostId(1), absl::UnavailableError("cable"));
  executor.RunUntilIdle();
  ASSERT_THAT(one.done, SizeIs(1));
  EXPECT_THAT(std::string(one.done[0].message()), HasSubstr("between host 0 and host 1 broke: cable"));
  EXPECT_THAT(two.done, IsEmpty());
  // The peer is not lost: the link may come back.
  const int before = links.sent[HostId(1)];
  runtime.Start(of_one, again.Options());
  executor.RunUntilIdle();
  EXPECT_THAT(again.done, IsEmpty());
  EXPECT_GT(links.sent[HostId(1)], before);
}

// A broken link between hosts that exchange no messages in a run does not end the run.
TEST(RuntimeLosses, WhoTalksWithWhomFollowsFromTheEdges) {
  const auto there = Over(4, 1, 1);
  auto star = *Graph::Create({{"a", "forward", "", there}, {"r", kResultOp, "", Over(1, 4)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true}});
  auto gathered =
      *Graph::Create({{"a", "forward", "", there}, {"c", "forward", "", Over(1, 1, 1)}, {"r", kResultOp, "", Over(1, 1, 9)}},
                     {{NodeId(0), NodeId(1), EdgeKind::kGather, true}, {NodeId(1), NodeId(2), EdgeKind::kOneToOne, true}});
  auto talk = [](const std::shared_ptr<const Graph>& graph, uint32_t coordinator, uint32_t a, uint32_t b) {
    const ProgressKnobs knobs{.fan_in = 5, .direct_pairs = 4};
    const auto plan = [&](uint32_t host) {
      return *HostPlan::Create(PartOf(*graph, HostId(host)), HostId(coordinator), HostId(host), knobs, 100);
    };
    const bool ab = plan(a)->TalksTo(HostId(b));
    EXPECT_EQ(ab, plan(b)->TalksTo(HostId(a))) << a << " " << b;
    return ab;
  };
  EXPECT_TRUE(talk(star, 0, 0, 3));
  EXPECT_FALSE(talk(gathered, 9, 2, 3)) << "two that are added up";
  EXPECT_FALSE(talk(gathered, 9, 2, 9)) << "one of them, and the coordinator";
  EXPECT_TRUE(talk(gathered, 9, 2, 1));
  EXPECT_TRUE(talk(gathered, 9, 1, 9));
}

}  // namespace
}  // namespace pw::dataflow
