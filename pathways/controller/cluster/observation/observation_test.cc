#include "pathways/controller/cluster/observation/observation.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/controller/testing/test_cluster.h"

namespace pw::controller {
namespace {

using ::pathways::v1::Examination;
using ::testing::HasSubstr;
using ::testing::Not;

Examination::Launch& AddLaunch(Examination& host, uint64_t op, uint64_t session, Examination::Launch::State state) {
  Examination::Launch& launch = *host.add_launches();
  launch.set_op(op);
  launch.set_session(session);
  launch.set_state(state);
  return launch;
}

TEST(PartOf, IsTheStateOfTheOpOnThatHost) {
  Examination host;
  AddLaunch(host, 5, 1, Examination::Launch::LAUNCHED);
  Examination::Launch& launch = AddLaunch(host, 7, 1, Examination::Launch::WAITS_FOR_MEMORY);
  launch.set_program("jit_step");
  launch.set_location("train.py:7");
  std::string program;
  EXPECT_EQ(PartOf(SessionId(1), OpId(7), &host, &program), "arrived, waits for device memory");
  EXPECT_EQ(program, "jit_step, train.py:7");
}

TEST(PartOf, OfAProgramOfManyNodesIsThatOfItsClientsOldestLaunch) {
  Examination host;
  AddLaunch(host, 0, 2, Examination::Launch::LAUNCHED);
  AddLaunch(host, 0, 1, Examination::Launch::WAITS_FOR_INPUTS);
  AddLaunch(host, 0, 1, Examination::Launch::NOT_GRANTED);
  std::string program;
  EXPECT_EQ(PartOf(SessionId(1), OpId(9), &host, &program), "arrived, waits for inputs");
}

TEST(PartOf, SaysWhereNothingIsKnown) {
  std::string program;
  const Examination idle;
  EXPECT_EQ(PartOf(SessionId(1), OpId(9), nullptr, &program), "does not answer");
  EXPECT_EQ(PartOf(SessionId(1), OpId(9), &idle, &program), "has not arrived there");
}

class ObservationTest : public testing::Test {
 protected:
  std::string Status() {
    return *c.Await<std::string>([&](auto done) { c.cluster->GetStatus(std::move(done)); });
  }
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      c.timers.Advance(absl::Seconds(1));
      c.Run();
    }
  }

  TestCluster c{1, 4};
};

TEST_F(ObservationTest, AComputationThatHangsIsNamedOnceUntilItEnds) {
  c.Open();
  auto info = *c.Compile(TestCluster::Toy("copy", 1, 1, 2), TestCluster::Devices(0, 2));
  ASSERT_TRUE(c.Put(1, TestCluster::Rows(0, 2, {2, 4}), "abcdefgh").ok());
  ASSERT_TRUE(c.Execute(info->handle, {1}, {2}).ok());
  Pass(1);
  ASSERT_TRUE(c.Ready({2}).ok());  // it has been measured
  c.workers[0]->hold_done = true;
  ASSERT_TRUE(c.Execute(info->handle, {1}, {3}).ok());
  Pass(9);
  EXPECT_THAT(Status(), HasSubstr("\"hangs\":[]"));
  Pass(5);
  const std::string status = Status();
  EXPECT_THAT(status, HasSubstr("\"hosts\":[{\"name\":\"w0\",\"state\":\"has not arrived there\"}]"));
  EXPECT_THAT(status, HasSubstr("\"kind\":\"hang\""));
  // Lines of a client's text are indented and have no control characters, so that they cannot pass for others.
  EXPECT_THAT(status, HasSubstr("\"stacks\":[{\"host\":\"w0\",\"process\":\"the program of client 1\",\"text\":"
                                "\"  MainThread at train.py:7\\n  E1128 a forged line [2J\\n\"}]"));
  Pass(5);
  const std::string later = Status();
  EXPECT_EQ(later.find("\"kind\":\"hang\""), later.rfind("\"kind\":\"hang\"")) << later;
  c.workers[0]->hold_done = false;
  c.workers[0]->ReleaseDone();
  Pass(2);
  EXPECT_THAT(Status(), HasSubstr("\"hangs\":[]"));
  EXPECT_THAT(Status(), HasSubstr("\"kind\":\"hang ended\""));
}

TEST_F(ObservationTest, AHangIsToldOnceWithTheLinesOfTheClientsProgram) {
  std::vector<std::pair<SessionId, std::string>> told;
  c.cluster->OnHang([&](SessionId session, const std::string& text) { told.emplace_back(session, text); });
  c.Open();
  auto info = *c.Compile(TestCluster::Toy("copy", 1, 1, 2), TestCluster::Devices(0, 2));
  ASSERT_TRUE(c.Put(1, TestCluster::Rows(0, 2, {2, 4}), "abcdefgh").ok());
  c.workers[0]->hold_done = true;
  ASSERT_TRUE(c.Execute(info->handle, {1}, {2}).ok());
  Pass(59);
  EXPECT_TRUE(told.empty());
  Pass(20);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, SessionId(1));
  EXPECT_THAT(told[0].second, HasSubstr("computation 1 of client 1"));
  EXPECT_THAT(told[0].second, HasSubstr("hangs"));
  EXPECT_THAT(told[0].second, HasSubstr("\nthe program of client 1:\n  MainThread at train.py:7\n"));
}

TEST_F(ObservationTest, AHangIsToldAlsoIfNoHostAnswers) {
  std::vector<std::string> told;
  c.cluster->OnHang([&](SessionId, const std::string& text) { told.push_back(text); });
  c.Open();
  auto info = *c.Compile(TestCluster::Toy("copy", 1, 1, 2), TestCluster::Devices(0, 2));
  ASSERT_TRUE(c.Put(1, TestCluster::Rows(0, 2, {2, 4}), "abcdefgh").ok());
  c.workers[0]->hold_done = true;
  ASSERT_TRUE(c.Execute(info->handle, {1}, {2}).ok());
  c.workers[0]->deaf_dataflow = true;
  Pass(80);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("w0: does not answer"));
}

TEST_F(ObservationTest, NothingIsAskedWhileNothingIsLate) {
  c.Open();
  Pass(3);
  const int before = c.workers[0]->frames;
  Pass(10);
  const int ten = c.workers[0]->frames - before;
  Pass(10);
  EXPECT_EQ(c.workers[0]->frames - before, 2 * ten);
}

TEST_F(ObservationTest, HostsAndClientsThatComeAndGoAreEvents) {
  c.Open();
  c.session = nullptr;
  c.Run();
  c.Add({"w1", "i1", 4});
  c.workers[1]->Die();
  c.Run();
  const std::string status = Status();
  for (const char* text :
       {"\"kind\":\"client connected\",\"text\":\"client 1: a test\"", "\"kind\":\"client left\",\"text\":\"client 1\"",
        "\"kind\":\"host joined\"", "\"kind\":\"host lost\""}) {
    EXPECT_THAT(status, HasSubstr(text));
  }
}

TEST_F(ObservationTest, ThePageHasTheLastExaminationsAndMakesFew) {
  const auto page = [&] { return *c.Await<std::string>([&](auto done) { c.cluster->GetPageStatus(std::move(done)); }); };
  EXPECT_THAT(page(), HasSubstr("\"files_open\":1"));
  EXPECT_THAT(page(), HasSubstr("\"files_open\":1")) << "it was asked again";
  Pass(6);
  EXPECT_THAT(page(), HasSubstr("\"files_open\":2"));
  Pass(6);
  c.workers[0]->deaf_dataflow = true;
  std::string late;
  c.cluster->GetPageStatus([&](absl::StatusOr<std::string> json) { late = *json; });
  Pass(1);
  EXPECT_THAT(late, HasSubstr("\"name\":\"w0\""));
  EXPECT_THAT(late, Not(HasSubstr("files_open"))) << "it did not answer when it was asked again";
}

TEST(StatusOfTheController, ItsCertificatesAndMachineAreForOperators) {
  ClusterOptions options;
  options.wall_clock = [] { return absl::FromUnixSeconds(1000); };
  options.list_certificates = [] { return std::map<std::string, absl::Time>{{"authority", absl::FromUnixSeconds(1500)}}; };
  options.examine_machine = [] {
    Examination machine;
    machine.set_disk("/var/log");
    machine.set_disk_free_bytes(7);
    return machine;
  };
  TestCluster c{1, 4, options};
  const std::string all = *c.Await<std::string>([&](auto done) { c.cluster->GetStatus(std::move(done)); });
  EXPECT_THAT(all, HasSubstr("\"certificates\":{\"authority\":500}"));
  EXPECT_THAT(all, HasSubstr("\"disk\":\"/var/log\",\"disk_free_bytes\":7"));
  const std::string adas = *c.Await<std::string>([&](auto done) { c.cluster->GetStatusFor("ada", std::move(done)); });
  EXPECT_THAT(adas, HasSubstr("\"certificates\":{}"));
  EXPECT_THAT(adas, Not(HasSubstr("/var/log")));
}

TEST(UsageOfSessions, IsStoredByUserEveryHalfMinuteAndAtTheEnd) {
  std::vector<usage::Entry> stored;
  ClusterOptions options;
  options.store_usage = [&](std::vector<usage::Entry> entries) { stored.insert(stored.end(), entries.begin(), entries.end()); };
  {
    TestCluster c{1, 4, options};
    session::NewSession wanted;
    wanted.description = "jax client at 10.0.0.1:7 on ada's machine";
    c.session = *c.Await<std::shared_ptr<Session>>([&](auto done) { c.cluster->OpenSession(wanted, std::move(done)); });
    auto info = *c.Compile(TestCluster::Toy("copy", 1, 1, 2), TestCluster::Devices(0, 2));
    ASSERT_TRUE(c.Put(1, TestCluster::Rows(0, 2, {2, 4}), "abcdefgh").ok());
    for (Handle result : {2, 3, 4}) ASSERT_TRUE(c.Execute(info->handle, {1}, {result}).ok());
    for (int i = 0; i < 31; ++i) {
      c.timers.Advance(absl::Seconds(1));
      c.Run();
    }
    ASSERT_EQ(stored.size(), 1u);
    EXPECT_EQ(stored[0].user, "ada's machine");
    EXPECT_EQ(stored[0].used.computations, 3);
    EXPECT_EQ(stored[0].used.sessions, 1);
    EXPECT_GT(stored[0].used.array_byte_seconds, 8 * 30);
    ASSERT_TRUE(c.Execute(info->handle, {1}, {5}).ok());
    c.Run();
  }
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[1].used.computations, 1);
}

TEST_F(ObservationTest, OperatorsThatAskAreNoEvents) {
  ASSERT_TRUE(c.cluster->OpenSession("an operator", true).ok());
  c.Run();
  EXPECT_THAT(Status(), Not(HasSubstr("an operator")));
}

}  // namespace
}  // namespace pw::controller
