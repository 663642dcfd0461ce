// Tests one host that both sends and receives. tests/e2e/programs/test_route.py tests routes over several hosts.
#include "pathways/worker/route/routes.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/dataflow/frame.h"
#include "pathways/program/route.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 4 rows of one float on devices 0 and 1 of this host. Expert 0 is on device 0, expert 1 on device 1; each has 2 slots.
class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest() { Install(5, "node 3 of step: train.py:7 in step"); }

  void Install(uint64_t number, const std::string& name) {
    v1::RouteSender sender;
    sender.set_row_bytes(4);
    sender.set_capacity(2);
    v1::RouteReceiver receiver;
    receiver.set_dtype(11);
    receiver.set_source_rows(4);
    receiver.set_capacity(2);
    for (int d = 0; d < 2; ++d) {
      auto& piece = *sender.add_pieces();
      piece.set_keys_input(1);
      piece.set_shard(d);
      piece.set_first(2 * d);
      piece.set_count(2);
      auto& target = *sender.add_targets();
      target.set_first(d);
      target.set_count(1);
      target.add_receivers(0);
      auto& tile = *receiver.add_tiles();
      tile.set_first(d);
      tile.set_count(1);
      for (int what = 0; what < 3; ++what) {
        auto& output = *tile.add_outputs();
        output.set_output(what);
        output.set_what(static_cast<v1::RouteReceiver::What>(what));
        output.set_shard(d);
        output.set_local_device(d);
      }
    }
    const auto here = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(HostId(1)));
    auto graph = dataflow::Graph::Create({{name, program::kRouteSend, sender.SerializeAsString(), here},
                                          {name, program::kRouteReceive, receiver.SerializeAsString(), here}},
                                         {{dataflow::NodeId(0), dataflow::NodeId(1), dataflow::EdgeKind::kSparse, true}},
                                         dataflow::HostLoss::kFailsShards);
    ASSERT_TRUE(graph.ok()) << graph.status();
    dataflow::FrameBuilder frame;
    frame.Add(dataflow::InstallMessage{number, dataflow::PartOf(**graph, HostId(1)), {}});
    Deliver(std::move(frame));
  }
  // Arrays 100 and 101 to 200, 201 and 202.
  void Start(uint64_t op, size_t outputs = 3, uint64_t graph = 5) {
    v1::RouteRun run;
    run.set_op(op);
    run.set_session(1);
    run.add_inputs(100);
    run.add_inputs(101);
    for (size_t i = 0; i < outputs; ++i) run.add_outputs(200 + i);
    dataflow::FrameBuilder frame;
    frame.Add(dataflow::StartMessage{++runs, graph, 1, run.SerializeAsString()});
    Deliver(std::move(frame));
  }
  void Deliver(dataflow::FrameBuilder frame) {
    v1::Command command;
    command.mutable_dataflow()->set_header(frame.SerializeHeader());
    w.Do(command);
  }
  // Puts a shard of two elements.
  void Put(uint64_t op, uint64_t array, int device, const std::string& bytes, int dtype) {
    v1::Command command = w.PutCommand(op, array, 2, {device});
    command.mutable_put()->set_dtype(dtype);
    command.mutable_put()->mutable_placements(0)->set_shard(device);
    command.mutable_put()->set_payload_bytes(8);
    w.Do(command, bytes);
  }
  void PutRows(std::vector<float> rows) {
    for (int d = 0; d < 2; ++d) Put(++op, 100, d, FloatBytes({rows[2 * d], rows[2 * d + 1]}), 11);
  }
  void PutKeys(std::vector<int32_t> keys) {
    for (int d = 0; d < 2; ++d) Put(++op, 101, d, std::string(reinterpret_cast<const char*>(keys.data() + 2 * d), 8), 4);
  }
  std::vector<int32_t> Ints(uint64_t array, int shard) {
    const std::vector<float> floats = w.Read(array, shard);
    std::vector<int32_t> ints(floats.size());
    std::memcpy(ints.data(), floats.data(), 4 * ints.size());
    return ints;
  }
  absl::Status ErrorOf(uint64_t array, int shard) {
    w.Fetch(800 + array, array, shard);
    w.Settle();
    return FromProto(w.connection.fetched.at(800 + array).status());
  }

  WorkerHarness w;
  uint64_t runs = 0;
  uint64_t op = 1000;
};

TEST_F(RoutesTest, RowsGoToTheExpertsThatTheirKeysName) {
  PutRows({1, 2, 3, 4});
  PutKeys({1, 0, 1, 1});
  Start(20);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(20), absl::OkStatus());
  EXPECT_THAT(w.Read(200, 0), ElementsAre(2, 0));
  EXPECT_THAT(w.Read(200, 1), ElementsAre(1, 3));
  EXPECT_THAT(Ints(201, 0), ElementsAre(1, -1));
  EXPECT_THAT(Ints(201, 1), ElementsAre(0, 2));
  EXPECT_THAT(Ints(202, 0), ElementsAre(1));
  EXPECT_THAT(Ints(202, 1), ElementsAre(3));
}

// The run reads the arrays that have the names when it begins, and its own arrays can be named at once.
TEST_F(RoutesTest, ItTakesItsPlaceAmongTheCommands) {
  PutKeys({0, 0, 1, 1});
  w.PutLater(10, 100, 2, {0});
  v1::Command second = w.PutCommand(11, 100, 2, {1});
  second.mutable_put()->mutable_placements(0)->set_shard(1);
  w.Do(second);
  Start(20);
  w.Compile(1, "args=1 outputs=1 dims=2");
  w.Execute(21, 1, {200}, {300});
  w.Release(100);
  w.Settle();
  EXPECT_FALSE(w.connection.done.contains(20));
  w.SendChunks(10, {1, 2});
  w.SendChunks(11, {3, 4});
  w.Settle();
  EXPECT_EQ(w.connection.done.at(20), absl::OkStatus());
  EXPECT_EQ(w.connection.done.at(21), absl::OkStatus());
  EXPECT_THAT(w.Read(300, 0), ElementsAre(2, 3));
  EXPECT_THAT(w.Read(300, 1), ElementsAre(4, 5));
}

TEST_F(RoutesTest, AKeyOutOfRangeFailsAllItsArraysAndNothingElse) {
  PutRows({1, 2, 3, 4});
  PutKeys({1, 0, 1, 2});
  Start(20);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(20).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ErrorOf(200, 0).message()), HasSubstr("row 3 names expert 2, and there are 2"));
  EXPECT_THAT(std::string(ErrorOf(202, 1).message()), HasSubstr("[at node 3 of step: train.py:7 in step]"));
  PutKeys({1, 1, 0, 0});
  Start(21);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(21), absl::OkStatus());
  EXPECT_THAT(w.Read(200, 0), ElementsAre(3, 4));
}

TEST_F(RoutesTest, AFailedInputFailsTheRouteWithItsError) {
  PutKeys({1, 0, 1, 1});
  v1::Command poison;
  poison.mutable_poison()->set_session(1);
  poison.mutable_poison()->add_arrays(100);
  *poison.mutable_poison()->mutable_error() = ToProto(absl::AbortedError("the rows are broken"));
  w.Do(poison);
  Start(20);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(20), absl::AbortedError("the rows are broken"));
  EXPECT_EQ(ErrorOf(201, 1), absl::AbortedError("the rows are broken"));
}

TEST_F(RoutesTest, InputsOfAnotherTypeOrShapeAreRefused) {
  PutRows({1, 2, 3, 4});
  for (int d = 0; d < 2; ++d) Put(++op, 101, d, FloatBytes({0, 1}), 11);
  Start(20);
  w.Settle();
  EXPECT_THAT(std::string(w.connection.done.at(20).message()), HasSubstr("another type or shape"));
}

TEST_F(RoutesTest, ARunWithoutItsArraysFails) {
  PutRows({1, 2, 3, 4});
  PutKeys({1, 0, 1, 1});
  Start(20, /*outputs=*/2);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(20).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RoutesTest, AGraphThatTheHostDoesNotHaveFailsTheRun) {
  PutRows({1, 2, 3, 4});
  PutKeys({1, 0, 1, 1});
  Start(20, 3, /*graph=*/6);
  w.Settle();
  EXPECT_THAT(std::string(w.connection.done.at(20).message()), HasSubstr("does not have graph 6"));
  EXPECT_THAT(std::string(ErrorOf(200, 0).message()), HasSubstr("does not have graph 6"));
}

TEST_F(RoutesTest, AGraphThatDoesNotParseFailsTheRunWithThatError) {
  PutRows({1, 2, 3, 4});
  PutKeys({1, 0, 1, 1});
  const auto here = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(HostId(1)));
  const auto graph =
      dataflow::Graph::Create({{"node 3 of step", program::kRouteReceive, "?", here}}, {}, dataflow::HostLoss::kFailsShards);
  ASSERT_TRUE(graph.ok()) << graph.status();
  dataflow::FrameBuilder frame;
  frame.Add(dataflow::InstallMessage{6, dataflow::PartOf(**graph, HostId(1)), {}});
  Deliver(std::move(frame));
  Start(20, 3, /*graph=*/6);
  w.Settle();
  EXPECT_EQ(w.connection.done.at(20).message(), "the receiver of a route does not parse [at node 3 of step]");
}

TEST_F(RoutesTest, ARunThatComesAgainIsAnsweredAgainAndDoesNothing) {
  PutRows({1, 2, 3, 4});
  PutKeys({1, 0, 1, 1});
  w.connection.repeats = true;
  Start(NamedOp(20));
  w.Settle();
  const int64_t arrays = w.Memory().arrays();
  Start(NamedOp(20));
  w.Settle();
  EXPECT_EQ(w.connection.repeated, 1);
  EXPECT_EQ(w.Memory().arrays(), arrays);
  EXPECT_THAT(w.Read(200, 1), ElementsAre(1, 3));
}

TEST_F(RoutesTest, TheEndOfTheSessionEndsARunThatWaits) {
  PutKeys({0, 0, 1, 1});
  w.PutLater(10, 100, 2, {0});
  Start(20);
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_FALSE(w.connection.done.at(20).ok());
  EXPECT_EQ(w.Memory().arrays(), 0);
  EXPECT_EQ(w.worker->charged_bytes(), 0);
}

TEST_F(RoutesTest, HostMemoryIsChargedWhileARouteIsUnderWay) {
  PutRows({1, 2, 3, 4});
  PutKeys({1, 0, 1, 1});
  w.hold_copies = true;
  const int64_t before = w.worker->charged_bytes();
  Start(20);
  w.Settle();
  EXPECT_GT(w.worker->charged_bytes(), before);
  w.hold_copies = false;
  w.Settle();
  EXPECT_EQ(w.connection.done.at(20), absl::OkStatus());
  EXPECT_EQ(w.worker->charged_bytes(), before + 4 * (4 + 4 + 2)) << "its arrays are on the devices";
}

}  // namespace
}  // namespace pw::worker
