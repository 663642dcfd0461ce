// Tests this host's part of programs over several hosts.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/worker/testing.h"

namespace pw::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Devices 0 and 1 of hosts 4 and 7, alternating; this is host 7.
struct SecondOfTwo : WorkerHarness {
  SecondOfTwo() : WorkerHarness(HostSeven()) {}
  static Setup HostSeven() {
    Setup setup;
    setup.host = 7;
    return setup;
  }
  void CompileForBoth(uint64_t id, const std::string& program) {
    v1::Command command;
    auto* c = command.mutable_compile();
    c->set_executable(id);
    c->set_session(1);
    c->set_format("sim");
    c->set_program_bytes(program.size());
    c->set_num_replicas(1);
    c->set_num_partitions(4);
    for (int p = 0; p < 4; ++p) {
      c->add_local_devices(p / 2);
      c->add_hosts(p % 2 == 0 ? 4 : 7);
    }
    auto* other = c->add_processes();
    other->set_host(4);
    other->set_address(address_of_4);
    Do(command, program);
    Settle();
  }
  void PutParts(uint64_t op, uint64_t array) {
    v1::Command command = PutCommand(op, array, 4, {0, 1});
    command.mutable_put()->mutable_placements(0)->set_shard(1);
    command.mutable_put()->mutable_placements(1)->set_shard(3);
    command.mutable_put()->set_payload_bytes(16);
    Do(command, FloatBytes({1, 2, 3, 4}));
  }
  void Launch(uint64_t op, uint64_t launch, uint64_t arg, uint64_t result) {
    v1::Command command;
    auto* e = command.mutable_execute();
    e->set_op(op);
    e->set_executable(1);
    e->set_session(1);
    e->add_args(arg);
    e->add_results(result);
    e->set_launch(launch);
    Do(command);
    Settle();
  }
  std::string address_of_4 = "address of 4";
};

TEST(SeveralHosts, ThePartsOfThisHostBearTheirNumbersInTheWhole) {
  SecondOfTwo w;
  w.CompileForBoth(1, kAdd);
  w.PutParts(10, 100);
  w.Launch(11, 5, 100, 101);
  EXPECT_TRUE(w.connection.done.at(11).ok()) << w.connection.done.at(11);
  EXPECT_THAT(w.Read(101, 1), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(w.Read(101, 3), ElementsAre(2, 3, 4, 5));
  EXPECT_TRUE(w.connection.launch_failed.empty());
}

TEST(SeveralHosts, LaunchesAreNumberedAlikeEverywhereAndApartFromThoseOfOneHost) {
  SecondOfTwo w;
  w.CompileForBoth(1, kAdd);
  w.Compile(2, kAdd);
  w.PutParts(10, 100);
  w.Put(12, 200, {1, 2, 3, 4});
  w.Execute(13, 2, {200}, {201});
  w.Launch(14, (uint64_t{1} << 30) + 5, 100, 101);
  w.Launch(15, 6, 100, 102);
  EXPECT_THAT(w.runtime.launches(), ElementsAre(1, ProgramExecutor::LaunchNumber(5), ProgramExecutor::LaunchNumber(6)));
  EXPECT_GT(ProgramExecutor::LaunchNumber(0), 1 << 29);
}

TEST(SeveralHosts, AFailureHereIsReportedForTheOthers) {
  SecondOfTwo w;
  w.CompileForBoth(1, kAdd);
  w.Launch(11, 5, 999, 101);  // an argument unknown here
  EXPECT_EQ(w.connection.done.at(11).code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(w.connection.launch_failed.size(), 1u);
  EXPECT_EQ(w.connection.launch_failed[0].launch(), 5u);
  EXPECT_THAT(w.connection.launch_failed[0].hosts(), ElementsAre(4));
  EXPECT_EQ(FromProto(w.connection.launch_failed[0].status()), w.connection.done.at(11));
}

TEST(SeveralHosts, AFailureForWantOfAnotherHostSaysWhichOne) {
  SecondOfTwo w;
  w.address_of_4 = "17 secret";
  w.CompileForBoth(1, "args=1 outputs=1 dims=4 fail=process_17_of_the_computation_is_gone:_its_connection_has_ended");
  w.PutParts(10, 100);
  w.Launch(11, 5, 100, 101);
  EXPECT_EQ(UnreachableHost(w.connection.done.at(11)), HostId(4)) << w.connection.done.at(11);
  ASSERT_EQ(w.connection.launch_failed.size(), 1u);
  EXPECT_EQ(w.connection.launch_failed[0].status().unreachable_host(), 4u) << "so that the others know it, too";
  w.Launch(12, 6, 101, 102);
  EXPECT_EQ(UnreachableHost(w.connection.done.at(12)), HostId(4)) << "what depends on it says the same";
}

TEST(SeveralHosts, WithoutAControllerLaunchesThatWaitForOtherHostsAreEnded) {
  SecondOfTwo w;
  w.CompileForBoth(1, "args=1 outputs=1 dims=4 hold=1");
  w.PutParts(10, 100);
  w.Launch(11, 6, 100, 101);
  w.Launch(12, 7, 999, 102);  // fails at once
  w.Compile(2, "args=1 outputs=1 dims=4 hold=1");
  w.Put(14, 200, {1, 2, 3, 4});
  w.Execute(15, 2, {200}, {201});
  w.Settle();
  EXPECT_EQ(w.worker->last_launch(), 7u);
  w.worker->Abandon(absl::UnavailableError("the controller has ended"));
  EXPECT_THAT(w.runtime.aborted(), ElementsAre(ProgramExecutor::LaunchNumber(6))) << "not that of this host alone";
  w.runtime.ReleaseHeld();
  w.Settle();
}

TEST(SeveralHosts, WhoDoesNotSayWhereTheOthersAreIsRefused) {
  SecondOfTwo w;
  w.address_of_4 = "";
  w.CompileForBoth(1, kAdd);
  EXPECT_THAT(w.connection.compiled.at(1).status().message(), HasSubstr("where host 4 is"));
}

}  // namespace
}  // namespace pw::worker
