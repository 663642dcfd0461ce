#include "pathways/dataflow/runtime.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/testing/forwarding.h"
#include "pathways/dataflow/testing/loose_links.h"

namespace pw::dataflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

// A chain over hosts costs one tuple for each edge between hosts; without single edges each of these edges has a report as well.
TEST(Runtime, SingleEdgesHaveNoReports) {
  for (bool single : {false, true}) {
    RuntimeWorld world(4, 1, WithForward());
    std::vector<Node> nodes;
    std::vector<Edge> edges;
    for (uint32_t n = 0; n < 41; ++n) {
      nodes.push_back({absl::StrCat("n", n), n < 40 ? "forward" : kResultOp, "", Over(1, 1, n % 4)});
      if (n > 0) edges.push_back({NodeId(n - 1), NodeId(n), EdgeKind::kOneToOne, true, single});
    }
    Outcome outcome;
    world.at(0).Start(*world.at(0).Install(*Graph::Create(std::move(nodes), std::move(edges))), outcome.Options());
    world.Settle();
    EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
    EXPECT_THAT((outcome.tuples[{40, 0}]), SizeIs(1));
    uint64_t tuples = 0, reports = 0;
    for (uint32_t h = 0; h < 4; ++h) {
      tuples += world.at(h).counters().tuples_sent;
      reports += world.at(h).counters().reports_sent;
    }
    EXPECT_EQ(tuples, 40u);
    EXPECT_EQ(reports, (single ? 0u : 40u) + 3);  // and of the run's end
    world.ExpectNothingLeft();
  }
}

// The operator of the source of a single edge over four shards: shard i does what the name says.
std::unique_ptr<FunctionOperator> MisusesASingleEdge() {
  auto op = std::make_unique<FunctionOperator>();
  op->on_inputs_closed = [](Shard& shard) {
    const EdgeId out = shard.outputs()[0];
    if (shard.index() != 1) shard.Send(out, shard.index(), TupleOf("x"));
    if (shard.index() == 2) shard.Send(out, shard.index(), TupleOf("again"));
    shard.Finish(shard.index() == 3 ? absl::AbortedError("too late") : absl::OkStatus());
  };
  return op;
}

TEST(Runtime, ASingleEdgeCarriesOneTupleOrAnError) {
  Operators operators = WithForward();
  operators.Add("misuse", MakeOf(MisusesASingleEdge));
  RuntimeWorld world(2, 1, operators);
  auto graph = Graph::Create({{"a", "misuse", "", Over(1, 4, 1)}, {"result", kResultOp, "", Over(1, 4)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kOneToOne, true, true}});
  Outcome outcome;
  world.at(0).Start(*world.at(0).Install(*graph), outcome.Options());
  world.Settle();
  ASSERT_THAT(outcome.closed, SizeIs(4));
  EXPECT_THAT((outcome.closed[{1, 1}].message()), HasSubstr("without sending a tuple to each shard of 'result'"));
  for (uint32_t s : {0, 2, 3}) {
    EXPECT_TRUE((outcome.closed[{1, s}].ok()));
    EXPECT_THAT((outcome.tuples[{1, s}]), ElementsAre("x"));
  }
  // An error that no tuple could carry any more is the run's.
  ASSERT_THAT(outcome.done, SizeIs(1));
  EXPECT_THAT(outcome.done[0].message(), HasSubstr("may not send again"));
  world.ExpectNothingLeft();
}

TEST(Runtime, EachHostMayGetAnArgumentOfItsOwn) {
  Operators operators;
  operators.Add("say", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard& shard) {
                    shard.Send(shard.outputs()[0], 0, TupleOf(shard.argument()));
                    shard.Finish();
                  };
                  return op;
                }));
  RuntimeWorld world(3, 1, operators);
  auto graph = Graph::Create({{"a", "say", "", Over(3, 1)}, {"result", kResultOp, "", Over(1, 1)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kGather, true, true}});
  Outcome outcome;
  RunOptions options = outcome.Options();
  options.argument_of = [](HostId host) { return absl::StrCat("of ", host.v); };
  world.at(0).Start(*world.at(0).Install(*graph), std::move(options));
  world.Settle();
  EXPECT_THAT((outcome.tuples[{1, 0}]), testing::UnorderedElementsAre("of 0", "of 1", "of 2"));
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

// A start that follows a flood of local tuples: the run has begun before anything that comes after it.
TEST(Runtime, AStartDoesNotWaitForWhatIsQueued) {
  constexpr int kTuples = 600'000;
  int received = 0, begun = 0;
  Operators operators;
  operators.Add("flood", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard& shard) {
                    for (int i = 0; i < kTuples; ++i) shard.Send(shard.outputs()[0], 0, {});
                    shard.Finish();
                  };
                  return op;
                }));
  operators.Add("count", MakeOf([&received] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_tuple = [&received](Shard&, EdgeId, const Tuple&) { ++received; };
                  return op;
                }));
  operators.Add("begin", MakeOf([&begun] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_start = [&begun](Shard&) { ++begun; };
                  return op;
                }));
  ManualExecutor executor(1);
  Strand strand(&executor);
  ManualClock clock;
  LooseLinks links;
  Runtime runtime({HostId(1), &strand, &clock, nullptr, &links, &operators}, {});
  const auto deliver = [&](uint64_t number, const std::shared_ptr<const Graph>& graph, const StartMessage& start) {
    FrameBuilder frame;
    frame.Add(InstallMessage{number, PartOf(*graph, HostId(1)), {}});
    frame.Add(start);
    links.handler->OnFrame(HostId(0), {frame.SerializeHeader(), Bytes()});
  };
  const auto here = Over(1, 1, 1);
  deliver(1, *Graph::Create({{"a", "flood", "", here}, {"b", "count", "", here}}, {{NodeId(0), NodeId(1)}}), {1, 1, 1, ""});
  deliver(2, *Graph::Create({{"c", "begin", "", here}}, {}), {2, 2, 1, ""});
  EXPECT_EQ(begun, 1);
  EXPECT_LT(received, kTuples);
  executor.RunUntilIdle();
  EXPECT_EQ(received, kTuples);
  EXPECT_EQ(runtime.live_runs(), 0u);
}

TEST(Runtime, AnOrderCostsOneMessageForEachHostAndBringsNoneBack) {
  constexpr uint32_t kHosts = 100;
  for (bool fails : {false, true}) {
    RuntimeWorld world(kHosts + 1, 1, WithForward());
    Outcome outcome;
    const auto order = Graph::Create({{"a", fails ? "fail2" : "forward", "", Over(kHosts, 2, 1)}}, {}, HostLoss::kConcernsNobody);
    const GraphId graph = *world.at(0).Install(*order);
    for (int i = 0; i < 3; ++i) world.at(0).Start(graph, outcome.Options());
    EXPECT_THAT(outcome.done, IsEmpty()) << "not inside Start";
    world.at(0).Uninstall(graph);
    world.Settle();
    EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus(), absl::OkStatus(), absl::OkStatus()));
    EXPECT_EQ(world.at(0).counters().control_sent, 5 * kHosts) << "the graph, three runs, and the graph's end";
    for (uint32_t h = 1; h <= kHosts; ++h) EXPECT_EQ(world.at(h).counters().frames_sent, 0u);
    world.ExpectNothingLeft();
  }
}

// The coordinator waits for its own shards alone. Shards of other hosts, lost or alive, do not delay the end.
TEST(Runtime, AnOrderIsOverWhenTheCoordinatorsOwnShardsAre) {
  Operators operators = WithForward();
  std::map<uint32_t, int> begun;
  operators.Add("begin", [&](const OperatorContext& context) -> absl::StatusOr<std::unique_ptr<Operator>> {
    auto op = std::make_unique<FunctionOperator>();
    op->on_start = [&, host = context.self.v](Shard&) { ++begun[host]; };
    if (context.self == HostId(0)) op->on_inputs_closed = [](Shard& shard) { shard.Finish(absl::AbortedError("here")); };
    if (context.self == HostId(1)) op->on_inputs_closed = [](Shard&) {};
    return op;
  });
  RuntimeWorld world(4, 1, operators);
  Outcome outcome;
  const auto order = Graph::Create({{"a", "begin", "", Over(4, 1)}}, {}, HostLoss::kConcernsNobody);
  const GraphId graph = *world.at(0).Install(*order);
  world.Settle();
  world.Kill(2);
  world.TellLost(2);
  world.Settle();
  world.at(0).Start(graph, outcome.Options());
  world.Settle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::AbortedError("here")));
  EXPECT_EQ(begun, (std::map<uint32_t, int>{{0, 1}, {1, 1}, {3, 1}}));
  EXPECT_EQ(world.at(1).live_runs(), 1u) << "its shard goes on";
  EXPECT_TRUE(world.at(0).Install(*order).ok()) << "also without the lost host";
}

// A coordinator that starts a run in a callback of the engine, and sends something else to the host afterwards.
TEST(Runtime, AStartHasLeftWhenStartReturnsAlsoInsideACallback) {
  const Operators operators = WithForward();
  ManualExecutor executor(1);
  Strand strand(&executor);
  ManualClock clock;
  LooseLinks links;
  Runtime runtime({HostId(0), &strand, &clock, nullptr, &links, &operators}, {});
  const GraphId here = *runtime.Install(*Graph::Create({{"a", "forward", "", Over(1, 1)}}, {}));
  const auto there = *Graph::Create({{"a", "never", "", Over(1, 1, 1)}}, {});
  const GraphId known = *runtime.Install(there);
  EXPECT_EQ(links.sent[HostId(1)], 1);
  std::vector<int> sent;
  RunOptions options;
  options.on_done = [&](const absl::Status&) {
    runtime.Start(known, {});
    sent.push_back(links.sent[HostId(1)]);
    runtime.Start(*runtime.Install(there), {});
    sent.push_back(links.sent[HostId(1)]);
  };
  runtime.Start(here, std::move(options));
  executor.RunUntilIdle();
  EXPECT_THAT(sent, ElementsAre(2, 3));
}

// Links between two runtimes. Host 1 answers inside Send, and its answer is posted to host 0's strand: like that of a host on another
// processor, while host 0 is held up there.
struct QuickLinks : Links {
  void Start(Handler* handler) override { this->handler = handler; }
  void Send(HostId, std::string header, std::vector<Bytes> payload, net::Lane) override {
    std::string bytes;
    for (const Bytes& piece : payload) bytes += piece.view();
    auto frame = std::make_shared<net::Frame>(net::Frame{std::move(header), Bytes::Copy(bytes)});
    peer_strand->Post([this, frame] { peer->handler->OnFrame(self, std::move(*frame)); });
    if (peer_executor != nullptr) peer_executor->RunUntilIdle();
  }
  void Disconnect(HostId, const absl::Status& why) override { ADD_FAILURE() << why; }

  HostId self;
  Handler* handler = nullptr;
  QuickLinks* peer = nullptr;
  Strand* peer_strand = nullptr;
  ManualExecutor* peer_executor = nullptr;
};

TEST(Runtime, AnswersThatComeBeforeStartHasReturnedCount) {
  ManualExecutor here(1), there(1);
  Strand strand_here(&here), strand_there(&there);
  ManualClock clock;
  const Operators operators = WithForward();
  QuickLinks links_here, links_there;
  links_here.self = HostId(0), links_here.peer = &links_there;
  links_here.peer_strand = &strand_there, links_here.peer_executor = &there;
  links_there.self = HostId(1), links_there.peer = &links_here, links_there.peer_strand = &strand_here;
  Runtime one({HostId(1), &strand_there, &clock, nullptr, &links_there, &operators}, {});
  Runtime zero({HostId(0), &strand_here, &clock, nullptr, &links_here, &operators}, {});
  Outcome outcome;
  zero.Start(Chain(zero, Over(1, 2, 1)), outcome.Options());
  EXPECT_THAT(outcome.done, IsEmpty());  // the caller does not have the run's id yet
  here.RunUntilIdle();
  there.RunUntilIdle();
  EXPECT_THAT(outcome.done, ElementsAre(absl::OkStatus()));
  EXPECT_THAT((outcome.tuples[{3, 0}]), SizeIs(2));
  EXPECT_EQ(zero.live_runs() + one.live_runs(), 0u);
}

// Hosts 1 and 2 send to host 3, whose start is late. They have more than there is room for before it, and wait.
TEST(Runtime, SendersWaitForALateStart) {
  RuntimeKnobs knobs;
  knobs.flow = {.window_bytes = 16 << 10, .high_water_bytes = 16 << 10, .hard_limit_bytes = 1 << 20};
  knobs.max_early_bytes = 4 << 10;
  Operators operators = WithForward();
  operators.Add("pour", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  auto sent = std::make_shared<int>(0);
                  op->on_inputs_closed = op->on_writable = [sent](Shard& shard) {
                    for (; *sent < 200; ++*sent) {
                      if (!shard.CanSend(shard.outputs()[0], 0)) return;
                      shard.Send(shard.outputs()[0], 0, TupleOf(std::string(1000, 'x')));
                    }
                    shard.Finish();
                  };
                  return op;
                }));
  size_t most = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    for (bool critical : {false, true}) {
      RuntimeWorld world(4, seed, operators, knobs);
      auto graph =
          Graph::Create({{"a", "pour", "", Over(2, 1, 1)}, {"b", "forward", "", Over(1, 1, 3)}, {"r", kResultOp, "", Over(1, 1)}},
                        {{NodeId(0), NodeId(1), EdgeKind::kGather, critical}, {NodeId(1), NodeId(2), EdgeKind::kGather, true}});
      Outcome outcome;
      world.at(0).Start(*world.at(0).Install(*graph), outcome.Options());
      while (world.RunOne()) most = std::max(most, world.at(3).early_bytes());
      world.Settle();
      ASSERT_THAT(outcome.done, ElementsAre(absl::OkStatus())) << "seed " << seed;
      ASSERT_THAT((outcome.tuples[{2, 0}]), SizeIs(1));
      EXPECT_EQ((outcome.tuples[{2, 0}][0].size()), 2u * 200 * 1000 + 3) << "seed " << seed;
      world.ExpectNothingLeft();
    }
  }
  EXPECT_GT(most, knobs.max_early_bytes) << "more than there is room for without waiting";
  EXPECT_LT(most, 2 * 4 * knobs.flow.window_bytes) << "the windows of two senders";
}

}  // namespace
}  // namespace pw::dataflow
