// Measures the coordination dataflow: tuples through the runtime, one host's part in a run, and whole runs, at 8, 128 and 2048
// shards (8 on each host). Everything runs in memory on one thread, so times are the processor time of all hosts together.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/testing/manual_world.h"
#include "pathways/base/threads/strand.h"
#include "pathways/dataflow/runtime.h"
#include "pathways/dataflow/testing/transport_links.h"
#include "pathways/net/in_memory/memory_transport.h"

namespace pw::dataflow {
namespace {

constexpr uint32_t kShardsPerHost = 8;
const Bytes* const kHandle = new Bytes(Bytes::FromString(std::string(64, 'x')));

// Sends one tuple along each output: to its own shard of a one-to-one edge, else to every destination shard.
struct Forward : Operator {
  void OnInputsClosed(Shard& shard) override {
    for (EdgeId out : shard.outputs()) {
      const EdgeKind kind = shard.graph().edge(out).kind;
      const uint32_t shards = shard.graph().destination(out).num_shards();
      const uint32_t from = kind == EdgeKind::kOneToOne ? shard.index() : 0;
      const uint32_t to = kind == EdgeKind::kOneToOne ? from + 1 : shards;
      for (uint32_t s = from; s < to; ++s) shard.Send(out, s, {*kHandle, {}});
    }
    shard.Finish();
  }
};

// Sends the number of tuples that the run's argument states.
struct Pour : Operator {
  void OnStart(Shard& shard) override { left = std::stoul(shard.argument()); }
  void OnInputsClosed(Shard& shard) override { OnWritable(shard); }
  void OnWritable(Shard& shard) override {
    const EdgeId out = shard.outputs()[0];
    for (; left > 0; --left) {
      if (!shard.CanSend(out, 0)) return;
      shard.Send(out, 0, {*kHandle, {}});
    }
    shard.Finish();
  }
  size_t left = 0;
};

template <class Op>
Operators::Factory Make() {
  return [](const OperatorContext&) -> absl::StatusOr<std::unique_ptr<Operator>> { return std::make_unique<Op>(); };
}

class World {
 public:
  explicit World(uint32_t hosts) {
    operators_.Add("forward", Make<Forward>());
    operators_.Add("pour", Make<Pour>());
    for (uint32_t h = 0; h < hosts; ++h) hosts_.push_back(std::make_unique<Host>(this, HostId(h)));
    for (auto& host : hosts_) {
      for (uint32_t h = 0; h < hosts; ++h) host->links.SetPeer(HostId(h), Address(h));
    }
  }
  ~World() {
    hosts_.clear();
    executor_.RunUntilIdle();
  }
  Runtime& at(uint32_t host) { return hosts_[host]->runtime; }
  void RunOnce(GraphId graph, const std::string& argument) {
    bool done = false;
    RunOptions options;
    options.argument = argument;
    options.on_done = [&done](const absl::Status& status) {
      PW_CHECK(status.ok());
      done = true;
    };
    at(0).Start(graph, std::move(options));
    do {
      executor_.RunUntilIdle();
    } while (timers_.Step());
    PW_CHECK(done);
  }
  RuntimeCounters Sum() {
    RuntimeCounters sum;
    for (auto& host : hosts_) {
      const RuntimeCounters& c = host->runtime.counters();
      sum.reports_sent += c.reports_sent;
      sum.control_sent += c.control_sent;
      sum.tuples_sent += c.tuples_sent;
      sum.frames_sent += c.frames_sent;
      sum.bytes_sent += c.bytes_sent;
    }
    return sum;
  }

 private:
  struct Host {
    Host(World* world, HostId id)
        : strand(&world->executor_),
          transport(&world->network_, &world->executor_),
          links(&transport, &strand, {.self = id}),
          listener(*transport.Listen(Address(id.v), [this](std::unique_ptr<net::Connection> c) { links.Accept(std::move(c)); })),
          runtime({id, &strand, &world->clock_, &world->timers_, &links, &world->operators_}, {}) {}
    Strand strand;
    net::MemoryTransport transport;
    TransportLinks links;
    std::unique_ptr<net::Listener> listener;
    Runtime runtime;
  };
  static std::string Address(uint32_t host) { return absl::StrCat("tcp:host", host, ":1"); }

  ManualExecutor executor_;
  ManualClock clock_;
  ManualTimers timers_{&clock_, &executor_};
  Operators operators_;
  net::MemoryNetwork network_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

PlacementRef Over(uint32_t first, uint32_t hosts, uint32_t shards_per_host) {
  return std::make_shared<const Placement>(Placement::Uniform(HostId(first), hosts, shards_per_host));
}

// Each run sends 10000 tuples of 64 bytes from one shard to another. Argument 0: on one host; 1: between hosts, coalesced;
// 2: between hosts, critical.
void Tuples(benchmark::State& state) {
  World world(2);
  const bool local = state.range(0) == 0;
  auto graph = Graph::Create({{"pour", "pour", "", Over(local ? 0 : 1, 1, 1)}, {"result", kResultOp, "", Over(0, 1, 1)}},
                             {{NodeId(0), NodeId(1), EdgeKind::kGather, state.range(0) == 2}});
  const GraphId id = *world.at(0).Install(*graph);
  world.RunOnce(id, "1");
  const RuntimeCounters before = world.Sum();
  for (auto _ : state) world.RunOnce(id, "10000");
  state.SetItemsProcessed(state.iterations() * 10000);
  state.counters["frames_per_run"] = static_cast<double>(world.Sum().frames_sent - before.frames_sent) / state.iterations();
}
BENCHMARK(Tuples)->DenseRange(0, 2)->ArgName("way");

class CountingCourier : public Courier {
 public:
  void SendTuple(HostId, bool, const TupleMessage&) override { ++messages; }
  void SendReport(HostId, bool, const ReportMessage&) override { ++messages; }
  bool HasRoom(HostId, bool) override { return true; }
  absl::Status CheckRoom(HostId, bool) override { return absl::OkStatus(); }
  void Queued(RunId, size_t) override {}
  void Unqueued(size_t) override {}
  void Waiting(RunId) override {}
  uint64_t messages = 0;
};

// One host's part in a run of Arg → A → B → Result over `shards` shards.
void OneHostsPartInARun(benchmark::State& state) {
  const uint32_t hosts = static_cast<uint32_t>(state.range(0)) / kShardsPerHost;
  const PlacementRef where = Over(1, hosts, kShardsPerHost);
  auto graph = Graph::Create({{"Arg", "forward", "", where},
                              {"A", "forward", "", where},
                              {"B", "forward", "", where},
                              {"Result", "forward", "", Over(0, 1, 1)}},
                             {{NodeId(0), NodeId(1)}, {NodeId(1), NodeId(2)}, {NodeId(2), NodeId(3), EdgeKind::kGather}});
  auto plan = HostPlan::Create(PartOf(**graph, HostId(hosts)), HostId(0), HostId(hosts), {}, 1 << 20);  // the last host
  Operators operators;
  operators.Add("forward", Make<Forward>());
  CountingCourier courier;
  for (auto _ : state) {
    Run run({HostId(0), 1}, *plan, "", &courier);
    PW_CHECK(run.Start(operators).ok());
    while (run.Step()) {
    }
  }
  state.counters["messages"] = static_cast<double>(courier.messages) / state.iterations();
}
BENCHMARK(OneHostsPartInARun)->Arg(8)->Arg(128)->Arg(2048)->ArgName("shards");

struct Finish : Operator {
  void OnStart(Shard& shard) override { shard.Finish(); }
};

// One host's part in a run of `nodes` nodes, with one shard each on this host: without edges, or a chain.
void NodesOnOneHost(benchmark::State& state) {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  for (uint32_t n = 0; n < state.range(0); ++n) {
    nodes.push_back({"", "finish", "", Over(1, 1, 1)});
    if (n > 0 && state.range(1) == 1) edges.push_back({NodeId(n - 1), NodeId(n)});
  }
  auto graph = Graph::Create(std::move(nodes), std::move(edges), HostLoss::kFailsShards);
  auto plan = HostPlan::Create(PartOf(**graph, HostId(1)), HostId(0), HostId(1), {}, 1 << 20);
  Operators operators;
  operators.Add("finish", Make<Finish>());
  CountingCourier courier;
  for (auto _ : state) {
    Run run({HostId(0), 1}, *plan, "", &courier);
    PW_CHECK(run.Start(operators).ok());
    while (run.Step()) {
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(NodesOnOneHost)->ArgsProduct({{1, 31}, {0, 1}})->ArgNames({"nodes", "chain"});

// Whole runs of Arg → A → Result on all hosts. Arg is on the hosts of A, or is scattered from one host. Every shard of A sends
// one tuple to Result.
void WholeRun(benchmark::State& state) {
  const uint32_t hosts = static_cast<uint32_t>(state.range(0)) / kShardsPerHost;
  World world(hosts);
  const PlacementRef where = Over(0, hosts, kShardsPerHost), one = Over(0, 1, 1);
  const bool scatter = state.range(1) == 1;
  auto graph = Graph::Create(
      {{"Arg", "forward", "", scatter ? one : where}, {"A", "forward", "", where}, {"Result", kResultOp, "", one}},
      {{NodeId(0), NodeId(1), scatter ? EdgeKind::kScatter : EdgeKind::kOneToOne}, {NodeId(1), NodeId(2), EdgeKind::kGather}});
  const GraphId id = *world.at(0).Install(*graph);
  world.RunOnce(id, "");
  const RuntimeCounters before = world.Sum();
  for (auto _ : state) world.RunOnce(id, "");
  const RuntimeCounters after = world.Sum();
  const double runs = static_cast<double>(state.iterations());
  state.counters["reports"] = (after.reports_sent - before.reports_sent) / runs;
  state.counters["starts"] = (after.control_sent - before.control_sent) / runs;
  state.counters["frames"] = (after.frames_sent - before.frames_sent) / runs;
  state.counters["us_per_host"] =
      benchmark::Counter(runs * hosts / 1e6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(WholeRun)->ArgsProduct({{8, 128, 2048}, {0, 1}})->ArgNames({"shards", "scatter"})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pw::dataflow
