// The memory that a graph and its runs take on a host does not depend on the size of the rest of the cluster.
#include "gtest/gtest.h"
#include "pathways/buffers/testing/allocation_counter.h"
#include "pathways/dataflow/run.h"
#include "pathways/dataflow/testing/runtime_world.h"

namespace pw::dataflow {
namespace {

class SilentCourier : public Courier {
 public:
  void SendTuple(HostId, bool, const TupleMessage&) override {}
  void SendReport(HostId, bool, const ReportMessage&) override {}
  bool HasRoom(HostId, bool) override { return true; }
  absl::Status CheckRoom(HostId, bool) override { return absl::OkStatus(); }
  void Queued(RunId, size_t) override {}
  void Unqueued(size_t) override {}
  void Waiting(RunId) override {}
};

struct Cost {
  size_t nodes = 0;
  size_t graph_bytes = 0;
  size_t run_bytes = 0;
};

// Measures Arg → A → B → Result, with 8 shards on each of `hosts` hosts, on host 1.
Cost Measure(uint32_t hosts) {
  const auto everywhere = std::make_shared<const Placement>(Placement::Uniform(HostId(1), hosts, 8));
  const auto one = std::make_shared<const Placement>(Placement::OnHost(HostId(0)));
  const std::string bytes =
      ToProto(
          *PartOf(**Graph::Create({{"Arg", "x", "", everywhere},
                                   {"A", "x", "", everywhere},
                                   {"B", "x", "", everywhere},
                                   {"Result", "x", "", one}},
                                  {{NodeId(0), NodeId(1)}, {NodeId(1), NodeId(2)}, {NodeId(2), NodeId(3), EdgeKind::kGather}}),
                  HostId(1)))
          .SerializeAsString();
  Operators operators;
  operators.Add("x", MakeOf([] {
                  auto op = std::make_unique<FunctionOperator>();
                  op->on_inputs_closed = [](Shard& shard) {
                    for (EdgeId out : shard.outputs())
                      shard.Send(out, shard.graph().destination(out).num_shards() == 1 ? 0 : shard.index(), TupleOf("handle"));
                    shard.Finish();
                  };
                  return op;
                }));
  const size_t before = buffers::AllocationsSoFar().bytes;
  auto part = ParseGraphPart(bytes);
  auto plan = HostPlan::Create(*part, HostId(0), HostId(1), {}, 1 << 20);
  const size_t installed = buffers::AllocationsSoFar().bytes;
  SilentCourier courier;
  Run run({HostId(0), 1}, *plan, "", &courier);
  EXPECT_TRUE(run.Start(operators).ok());
  while (run.Step()) {
  }
  return {(*part)->nodes().size(), installed - before, buffers::AllocationsSoFar().bytes - installed};
}

TEST(HostMemory, OfAGraphAndARunIsThatOfTheShardsHere) {
  const Cost small = Measure(1), medium = Measure(16), large = Measure(256);
  for (const Cost& cost : {small, medium, large}) {
    EXPECT_EQ(cost.nodes, 4u);
    RecordProperty("graph_bytes", static_cast<int>(cost.graph_bytes));
    RecordProperty("run_bytes", static_cast<int>(cost.run_bytes));
  }
  EXPECT_LE(medium.run_bytes, small.run_bytes);
  EXPECT_LE(large.run_bytes, small.run_bytes + 2048);  // the first host heads a tree of 256: 63 + 3 children
  EXPECT_LE(medium.graph_bytes, small.graph_bytes + 256);
  EXPECT_LE(large.graph_bytes, small.graph_bytes + 4096);
  printf("8, 128, 2048 shards: %zu, %zu, %zu bytes for the graph and %zu, %zu, %zu for a run\n", small.graph_bytes,
         medium.graph_bytes, large.graph_bytes, small.run_bytes, medium.run_bytes, large.run_bytes);
}

}  // namespace
}  // namespace pw::dataflow
