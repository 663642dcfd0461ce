#include "pathways/dataflow/runtime.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/log.h"
#include "pathways/dataflow/testing/placements.h"
#include "pathways/dataflow/testing/runtime_world.h"

namespace pw::dataflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Sends one tuple, with its index and all it received, to each destination that its outputs allow.
std::unique_ptr<FunctionOperator> Forwarder() {
  auto op = std::make_unique<FunctionOperator>();
  auto seen = std::make_shared<std::map<uint32_t, std::string>>();
  op->on_tuple = [seen](Shard& shard, EdgeId, Tuple tuple) { (*seen)[shard.index()] += std::string(tuple.data.view()); };
  op->on_inputs_closed = [seen](Shard& shard) {
    for (EdgeId out : shard.outputs()) {
      const Edge& edge = shard.graph().edge(out);
      const uint32_t shards = shard.graph().destination(out).num_shards();
      const std::string text = absl::StrCat((*seen)[shard.index()], shard.graph().node(edge.from).name, shard.index(), " ");
      if (edge.kind == EdgeKind::kOneToOne) {
        shard.Send(out, shard.index(), TupleOf(text));
      } else {
        for (uint32_t s = 0; s < shards; ++s) shard.Send(out, s, TupleOf(text));
      }
    }
    shard.Finish();
  };
  return op;
}

Operators WithForward() {
  Operators operators;
  operators.Add("forward", MakeOf(Forwarder));
  operators.Add("fail2", MakeOf([] {
                  auto op = Forwarder();
                  op->on_inputs_closed = [forward = op->on_inputs_closed](Shard& shard) {
                    shard.index() == 2 ? shard.Finish(absl::AbortedError("two is broken")) : forward(shard);
                  };
                  return op;
                }));
  operators.Add("never", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard&) {};
                  return op;
                }));
  return operators;
}

struct Outcome {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::string>> tuples;  // by result node and shard
  std::map<std::pair<uint32_t, uint32_t>, absl::Status> closed;
  std::vector<absl::Status> done;

  RunOptions Options(std::string argument = "") {
    RunOptions options;
    options.argument = std::move(argument);
    options.on_tuple = [this](NodeId n, uint32_t s, Tuple t) { tuples[{n.v, s}].emplace_back(t.data.view()); };
    options.on_closed = [this](NodeId n, uint32_t s, const absl::Status& status) { closed[{n.v, s}] = status; };
    options.on_done = [this](const absl::Status& status) { done.push_back(status); };
    return options;
  }
};

GraphId Chain(Runtime& runtime, PlacementRef where, const std::string& a = "forward", EdgeKind last = EdgeKind::kGather,
              uint32_t result_shards = 1) {
  auto graph = Graph::Create({{"arg", "forward", "", where},
                              {"a", a, "", where},
                              {"b", "forward", "", where},
                              {"result", kResultOp, "", Over(1, result_shards)}},
                             {{NodeId(0), NodeId(1)}, {NodeId(1), NodeId(2)}, {NodeId(2), NodeId(3), last}});
  PW_CHECK(graph.ok());
  auto id = runtime.Install(*graph);
  PW_CHECK(id.ok());
  return *id;
}

TEST(Runtime, AChainOverManyHostsIsFourNodesAndAFewMessagesForEachHost) {
  for (uint32_t hosts : {1u, 16u, 256u}) {
    RuntimeWorld world(hosts, 1, WithForward());
    Outcome outcome;
    const GraphId graph = Chain(world.at(0), Over(hosts, 8));
    world.at(0).Start(graph, outcome.Options());
    world.Settle();
    ASSERT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
    std::vector<std::string> results = outcome.tuples[{3, 0}];
    ASSERT_THAT(results, SizeIs(8 * hosts));
    EXPECT_THAT(results, testing::Contains("arg7 a7 b7 "));
    world.ExpectNothingLeft();
    uint64_t reports = 0, control = 0, tuples = 0;
    for (uint32_t h = 0; h < hosts; ++h) {
      reports += world.at(h).counters().reports_sent;
      control += world.at(h).counters().control_sent;
      tuples += world.at(h).counters().tuples_sent;
    }
    EXPECT_EQ(control, 2u * (hosts - 1));  // install and start
    EXPECT_EQ(reports, 2u * (hosts - 1));  // of the gather, and of the run's end
    EXPECT_EQ(tuples, 8u * (hosts - 1));
  }
}

TEST(Runtime, AnErrorPoisonsWhatDependsOnItAndTheRunEnds) {
  RuntimeWorld world(2, 1, WithForward());
  Outcome outcome;
  // Every shard has a result shard of its own, on the coordinator.
  world.at(0).Start(Chain(world.at(0), Over(2, 2), "fail2", EdgeKind::kOneToOne, 4), outcome.Options());
  world.Settle();
  ASSERT_THAT(outcome.closed, SizeIs(4));
  for (uint32_t s = 0; s < 4; ++s) {
    EXPECT_EQ((outcome.closed[{3, s}]), s == 2 ? absl::AbortedError("two is broken") : absl::OkStatus());
    EXPECT_THAT((outcome.tuples[{3, s}]), SizeIs(s == 2 ? 0 : 1));
  }
  EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));  // the result node has handed it over
  world.ExpectNothingLeft();
}

TEST(Runtime, AnErrorThatNobodyHandlesIsTheRunsStatus) {
  RuntimeWorld world(2, 1, WithForward());
  Outcome outcome;
  RunOptions options = outcome.Options();
  options.on_closed = nullptr;
  world.at(0).Start(Chain(world.at(0), Over(2, 2), "fail2"), std::move(options));
  world.Settle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::AbortedError("two is broken")));
  world.ExpectNothingLeft();
}

TEST(Runtime, AnyHostCoordinates) {
  RuntimeWorld world(3, 5, WithForward());
  Outcome outcome;
  auto graph = Graph::Create({{"a", "forward", "", Over(2, 1)}, {"result", kResultOp, "", Over(1, 1, 2)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kGather, true}});
  auto id = world.at(2).Install(*graph);
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 3; ++i) world.at(2).Start(*id, outcome.Options());
  world.at(2).Uninstall(*id);
  world.Settle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus(), absl::OkStatus(), absl::OkStatus()));
  EXPECT_THAT((outcome.tuples[{1, 0}]), SizeIs(6));
  world.ExpectNothingLeft();
}

TEST(Runtime, CancelEndsARunEverywhere) {
  RuntimeWorld world(3, 1, WithForward());
  Outcome outcome;
  const RunId run = world.at(0).Start(Chain(world.at(0), Over(3, 2), "never"), outcome.Options());
  world.Settle();
  EXPECT_THAT(outcome.done, IsEmpty());
  for (uint32_t h = 0; h < 3; ++h) EXPECT_EQ(world.at(h).live_runs(), 1u);
  world.at(0).Cancel(run, absl::CancelledError("enough"));
  world.at(0).Cancel(run, absl::CancelledError("again"));
  world.Settle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::CancelledError("enough")));
  world.ExpectNothingLeft();
}

TEST(Runtime, LosingAHostEndsExactlyTheRunsThatDependOnIt) {
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

TEST(Runtime, LosingTheCoordinatorFreesItsRuns) {
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

TEST(Runtime, AnOperatorThatAHostDoesNotKnowFailsTheRun) {
  RuntimeWorld world(2, 1, WithForward());
  Outcome outcome;
  world.at(0).Start(Chain(world.at(0), Over(1, 1, 1), "telepathy"), outcome.Options());
  world.Settle();
  ASSERT_THAT(outcome.done, SizeIs(1));
  EXPECT_EQ(outcome.done[0].code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(outcome.done[0].message(), HasSubstr("host 1 knows no operator 'telepathy'"));
  world.ExpectNothingLeft();
}

TEST(Runtime, AShardThatSendsWhereItMayNotFails) {
  Operators operators = WithForward();
  operators.Add("astray", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard& shard) {
                    shard.Send(shard.outputs()[0], shard.index() + 1, TupleOf("x"));
                    shard.Finish();
                  };
                  return op;
                }));
  RuntimeWorld world(1, 1, operators);
  Outcome outcome;
  world.at(0).Start(Chain(world.at(0), Over(1, 1), "astray"), outcome.Options());
  world.Settle();
  EXPECT_EQ((outcome.closed[{3, 0}].code()), absl::StatusCode::kInvalidArgument);
  world.ExpectNothingLeft();
}

TEST(Runtime, AnOperatorGoesOnOutsideItsCallbacks) {
  Operators operators = WithForward();
  std::vector<ShardRef> waiting;
  operators.Add("later", MakeOf([&waiting] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [&waiting](Shard& shard) { waiting.push_back(shard.ref()); };
                  return op;
                }));
  RuntimeWorld world(1, 1, operators);
  Outcome outcome;
  world.at(0).Start(Chain(world.at(0), Over(1, 2), "later"), outcome.Options());
  world.Settle();
  ASSERT_THAT(waiting, SizeIs(2));
  EXPECT_THAT(outcome.done, IsEmpty());
  for (const ShardRef& ref : waiting) {
    EXPECT_TRUE(world.at(0).With(ref, [](Shard& shard) {
      shard.Send(shard.outputs()[0], shard.index(), TupleOf("late"));
      shard.Finish();
    }));
  }
  world.Settle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
  EXPECT_FALSE(world.at(0).With(waiting[0], [](Shard&) { FAIL(); }));
}

// A source that wants to send 1000 x 4 KiB at once, over a window of 64 KiB.
TEST(Runtime, GoodOperatorsStopWhereThereIsNoRoomAndGoOn) {
  RuntimeKnobs knobs;
  knobs.flow = {.window_bytes = 64 << 10, .high_water_bytes = 32 << 10, .hard_limit_bytes = 80 << 10};
  for (bool critical : {false, true}) {
    Operators operators;
    int stops = 0;
    size_t most = 0;
    Runtime* sender = nullptr;
    operators.Add("pour", MakeOf([&] {
                    auto op = std::make_unique<FunctionOperator>();
                    auto sent = std::make_shared<int>(0);
                    op->on_inputs_closed = op->on_writable = [&, sent](Shard& shard) {
                      const EdgeId out = shard.outputs()[0];
                      while (*sent < 1000) {
                        if (!shard.CanSend(out, 0)) return void(++stops);
                        shard.Send(out, 0, TupleOf(std::string(4096, 'x')));
                        ++*sent;
                        most = std::max(most, sender->waiting_bytes(HostId(0)));
                      }
                      shard.Finish();
                    };
                    return op;
                  }));
    RuntimeWorld world(2, 3, operators, knobs);
    sender = &world.at(1);
    auto graph = Graph::Create({{"a", "pour", "", Over(1, 1, 1)}, {"result", kResultOp, "", Over(1, 1)}},
                               {{NodeId(0), NodeId(1), EdgeKind::kGather, critical}});
    Outcome outcome;
    world.at(0).Start(*world.at(0).Install(*graph), outcome.Options());
    world.Settle();
    EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
    EXPECT_THAT((outcome.tuples[{1, 0}]), SizeIs(1000));
    EXPECT_GT(stops, 5);
    EXPECT_LT(most, (32u << 10) + (5u << 10));  // the high water, and the tuple that passed it
    world.ExpectNothingLeft();
  }
}

// An operator that ignores CanSend gets an error that says why; no tuple is lost silently.
TEST(Runtime, ABadOperatorEndsWithAnError) {
  RuntimeKnobs knobs;
  knobs.flow = {.window_bytes = 64 << 10, .high_water_bytes = 32 << 10, .hard_limit_bytes = 256 << 10};
  Operators operators;
  operators.Add("flood", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard& shard) {
                    for (int i = 0; i < 1000; ++i) shard.Send(shard.outputs()[0], 0, TupleOf(std::string(4096, 'x')));
                    shard.Finish();
                  };
                  return op;
                }));
  RuntimeWorld world(2, 3, operators, knobs);
  auto graph = Graph::Create({{"a", "flood", "", Over(1, 1, 1)}, {"result", kResultOp, "", Over(1, 1)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kGather}});
  Outcome outcome;
  world.at(0).Start(*world.at(0).Install(*graph), outcome.Options());
  world.Settle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
  EXPECT_EQ((outcome.closed[{1, 0}].code()), absl::StatusCode::kResourceExhausted);
  world.ExpectNothingLeft();
}

TEST(Runtime, CriticalEdgesDoNotWaitAndOthersAreCoalesced) {
  for (bool critical : {false, true}) {
    RuntimeWorld world(2, 1, WithForward());
    auto graph = Graph::Create({{"a", "forward", "", Over(1, 100, 1)}, {"result", kResultOp, "", Over(1, 1)}},
                               {{NodeId(0), NodeId(1), EdgeKind::kGather, critical}});
    Outcome outcome;
    world.at(0).Start(*world.at(0).Install(*graph), outcome.Options());
    world.SettleNow();  // no time passes
    EXPECT_EQ(outcome.tuples.empty(), !critical);
    const BatchingCounters before = world.at(1).batching_counters();
    EXPECT_EQ(before.coalesced_frames, 0u);
    EXPECT_EQ(before.critical_messages, critical ? 102u : 1u);  // tuples and the edge's report; the end's always
    world.Settle();
    EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
    const BatchingCounters& after = world.at(1).batching_counters();
    EXPECT_EQ(after.coalesced_messages, critical ? 0u : 101u);
    EXPECT_EQ(after.coalesced_frames, critical ? 0u : 1u);
  }
}

TEST(Runtime, WhatComesTooEarlyIsKeptUpToALimit) {
  // Host 1 sends to host 2, whose start is late.
  for (size_t limit : {size_t{1} << 20, size_t{4} << 10}) {
    RuntimeKnobs knobs;
    knobs.max_early_bytes = limit;
    int early = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      RuntimeWorld world(3, seed, WithForward(), knobs);
      auto graph = Graph::Create(
          {{"a", "forward", "", Over(1, 50, 1)}, {"b", "forward", "", Over(1, 50, 2)}, {"r", kResultOp, "", Over(1, 1)}},
          {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true}, {NodeId(1), NodeId(2), EdgeKind::kGather, true}});
      Outcome outcome;
      world.at(0).Start(*world.at(0).Install(*graph), outcome.Options());
      world.Settle();
      ASSERT_THAT(outcome.done, SizeIs(1));
      if (outcome.done[0].ok()) {
        ++early;
        EXPECT_THAT((outcome.tuples[{2, 0}]), SizeIs(50));
      } else {
        ++refused;
        EXPECT_EQ(outcome.done[0].code(), absl::StatusCode::kResourceExhausted) << outcome.done[0];
      }
      world.ExpectNothingLeft();
    }
    EXPECT_GT(early, 0);
    EXPECT_EQ(refused > 0, limit == 4 << 10);
  }
}

// Links without peers: the test calls the handler, and sees what is sent.
struct LooseLinks : Links {
  void Start(Handler* handler) override { this->handler = handler; }
  void Send(HostId to, std::string, std::vector<Bytes>, net::Lane) override { ++sent[to]; }
  void Disconnect(HostId, const absl::Status& why) override { ADD_FAILURE() << why; }
  Handler* handler = nullptr;
  std::map<HostId, int> sent;
};

TEST(Runtime, AWayThatBreaksEndsTheRunsThatUseItAndNothingElse) {
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
TEST(Runtime, WhoTalksWithWhomFollowsFromTheEdges) {
  const auto there = Over(4, 1, 1);
  auto star = *Graph::Create({{"a", "forward", "", there}, {"r", kResultOp, "", Over(1, 4)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true}});
  auto gathered =
      *Graph::Create({{"a", "forward", "", there}, {"c", "forward", "", Over(1, 1, 1)}, {"r", kResultOp, "", Over(1, 1, 9)}},
                     {{NodeId(0), NodeId(1), EdgeKind::kGather, true}, {NodeId(1), NodeId(2), EdgeKind::kOneToOne, true}});
  auto talk = [](const std::shared_ptr<const Graph>& graph, uint32_t coordinator, uint32_t a, uint32_t b) {
    const ProgressKnobs knobs{.fan_in = 5, .direct_pairs = 4};
    const bool ab = (*HostPlan::Create(graph, HostId(coordinator), HostId(a), knobs, 100))->TalksTo(HostId(b));
    EXPECT_EQ(ab, (*HostPlan::Create(graph, HostId(coordinator), HostId(b), knobs, 100))->TalksTo(HostId(a))) << a << " " << b;
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
