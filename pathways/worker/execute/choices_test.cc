// Tests the choices of one host, which decides, or hears of decisions. tests/programs has choices over several hosts, and
// tests/e2e/programs/test_choices.py has them with jax.
#include "pathways/worker/execute/choices.h"

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/dataflow/frame.h"
#include "pathways/program/command_template.h"
#include "pathways/worker/testing.h"
#include "pathways/worker/testing_decisions.h"

namespace pw::worker {
namespace {

using program::Slot;
using program::SlotKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Graph g runs executable g on its argument. Array 100 is the input of a choice, 101 its index.
class ChoicesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kChoice = 30, kInput = 100, kIndex = 101, kResult = 200;
  // Slots of the script: index, input, output, and what the script makes.
  enum : uint32_t { kIndexSlot, kInputSlot, kOutputSlot, kFreeSlot, kSlots = 64 };

  // Loads graph `number`, with a computation of this recipe.
  void Load(uint64_t number, const std::string& recipe, int outputs = 1) {
    w.Compile(number, recipe, {0});
    const auto here = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(HostId(1)));
    v1::NodeCommands node;
    auto* execute = node.add_commands()->mutable_execute();
    execute->set_executable(number);
    execute->add_args(Slot(SlotKind::kArgument, 0));
    for (int k = 0; k < outputs; ++k) execute->add_results(Slot(SlotKind::kResult, static_cast<uint64_t>(k)));
    const auto graph = dataflow::Graph::Create(
        {{absl::StrCat("node ", number, " of f"), program::kNodeOperator, node.SerializeAsString(), here}}, {},
        dataflow::HostLoss::kConcernsNobody);
    dataflow::FrameBuilder frame;
    frame.Add(dataflow::InstallMessage{number, dataflow::PartOf(**graph, HostId(1)), {}});
    v1::Command command;
    command.mutable_dataflow()->set_header(frame.SerializeHeader());
    w.Do(command);
  }
  // Makes the input {1, 11}, and an index that a computation makes of its first element, plus `more`.
  void Prepare(const std::string& predicate = "args=1 outputs=1 dims=2 index=1") {
    w.Compile(9, predicate, {0});
    w.Put(10, kInput, {1, 11}, {0});
    w.Execute(11, 9, {kInput}, {102, kIndex});  // the index is 2
  }
  static void AddPart(v1::Script* script, uint64_t graph, uint32_t arg, std::vector<uint32_t> results) {
    auto* part = script->add_steps()->mutable_part();
    part->set_graph(graph);
    part->add_args(arg);
    for (uint32_t result : results) part->add_results(result);
    part->set_names(kFreeSlot);
  }
  static v1::Script::Choose* AddChoose(v1::Script* script, uint32_t number, uint32_t index, uint32_t leader = 1) {
    auto* choose = script->add_steps()->mutable_choose();
    choose->set_number(number);
    choose->set_index(index);
    choose->set_leader(leader);
    choose->add_outputs(kOutputSlot);
    choose->set_location(absl::StrCat("node ", number, " of g"));
    return choose;
  }
  // A choice among these graphs, of hosts 1 and 2, on device 0.
  static v1::BeginChoice Among(const std::vector<uint64_t>& graphs, uint32_t leader = 1) {
    v1::BeginChoice choice = Empty();
    v1::Script::Choose* choose = AddChoose(choice.mutable_script(), 0, kIndexSlot, leader);
    for (uint64_t graph : graphs) AddPart(choose->add_branches(), graph, kInputSlot, {kOutputSlot});
    return choice;
  }
  static v1::BeginChoice Empty() {
    v1::BeginChoice choice;
    choice.set_op(kChoice);
    choice.set_session(1);
    choice.add_hosts(1);
    choice.add_hosts(2);
    choice.set_gang(kChoice);
    choice.set_granted(true);
    choice.add_devices(0);
    choice.set_base(*RequestName{SessionId(1), 5, 0, false}.Number(kSlots));
    choice.set_slots(kSlots);
    const std::pair<uint32_t, uint64_t> inputs[] = {{kIndexSlot, kIndex}, {kInputSlot, kInput}};
    for (const auto& [slot, array] : inputs) {
      auto* input = choice.add_inputs();
      input->set_slot(slot);
      input->set_array(array);
    }
    auto* output = choice.add_outputs();
    output->set_slot(kOutputSlot);
    output->set_array(kResult);
    return choice;
  }
  void Begin(const v1::BeginChoice& choice) {
    w.strand.Post([this] { w.worker->peers().frames().Connected(HostId(2), &link); });
    v1::Command command;
    command.mutable_expect()->set_session(1);
    command.mutable_expect()->set_array(kResult);
    command.mutable_expect()->add_placements();
    w.Do(command);
    command.Clear();
    *command.mutable_begin_choice() = choice;
    w.Do(command);
  }
  void Hear(uint32_t from, uint32_t number, uint32_t branch, const absl::Status& status = absl::OkStatus()) {
    v1::BranchChosen chosen;
    chosen.set_choice(kChoice);
    chosen.set_number(number);
    chosen.set_branch(branch);
    if (!status.ok()) *chosen.mutable_status() = ToProto(status);
    w.strand.Post([this, from, chosen] { w.worker->peers().frames().OnBranch(HostId(from), chosen); });
    w.Settle();
  }
  void Say(uint32_t from, v1::BranchChosen::What what) {
    v1::BranchChosen said;
    said.set_choice(kChoice);
    said.set_what(what);
    w.strand.Post([this, from, said] { w.worker->peers().frames().OnBranch(HostId(from), said); });
    w.Settle();
  }
  void Lose(uint32_t host) {
    w.strand.Post([this, host] {
      w.worker->peers().frames().TellLeft(HostId(host), absl::UnavailableError(absl::StrCat("host ", host, " has left")));
    });
    w.Settle();
  }
  bool Answered() {
    for (const auto& [op, status] : w.connection.done) {
      if (op == kChoice) return true;
    }
    return false;
  }
  std::string ErrorOf(uint64_t array) {
    const uint64_t fetch = next_fetch++;
    w.Fetch(fetch, array, 0);
    w.Settle();
    return w.connection.fetched[fetch].status().message();
  }
  size_t Launches() const { return w.runtime.launches().size(); }

  // The link to host 2: keeps the decisions that this host sends there.
  struct LinkTo2 : net::FrameSink {
    using FrameSink::Send;
    void Send(std::string header, std::vector<Bytes>, net::Lane) override {
      v1::PeerMessage message;
      EXPECT_TRUE(message.ParseFromString(header) && message.has_branch_chosen());
      sent.push_back(message.branch_chosen());
    }
    bool CanSendBulk() const override { return true; }
    std::vector<v1::BranchChosen> sent;
  };

  uint64_t next_fetch = 800000;
  LinkTo2 link;
  WorkerHarness w;
};

constexpr char kPlus[] = "args=1 outputs=1 dims=2";

TEST_F(ChoicesTest, TheLeaderReadsTheIndexTellsTheOthersAndRunsTheBranch) {
  for (uint64_t graph : {5, 6, 7}) Load(graph, graph == 7 ? std::string(kPlus) : absl::StrCat(kPlus, " fail=not_chosen"));
  Prepare();
  Begin(Among({5, 6, 7}));
  w.Settle();
  EXPECT_TRUE(Answered());
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.sent[0].choice(), kChoice);
  EXPECT_EQ(link.sent[0].branch(), 2u);
  EXPECT_EQ(Launches(), 2u) << "the predicate and the branch";
}

TEST_F(ChoicesTest, AnIndexPastTheEndIsTheLast) {
  Load(5, absl::StrCat(kPlus, " fail=not_chosen"));
  Load(6, kPlus);
  Prepare();
  Begin(Among({5, 6}));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, ItKeepsItsPlaceUntilTheBranchIsLaunchedAndNoLonger) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5}, /*leader=*/2);
  Begin(choice);
  w.Compile(3, kPlus, {0});
  w.Execute(29, 3, {kInput}, {300});  // of another client
  w.Settle();
  EXPECT_EQ(Launches(), 1u) << "only the predicate: the choice is before it";
  Hear(2, 0, 0);
  EXPECT_EQ(Launches(), 3u);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
  EXPECT_THAT(w.Read(300, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, ABranchWithoutThisHostLaunchesNothingAndGivesUpThePlace) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5}, /*leader=*/2);
  choice.mutable_script()->mutable_steps(0)->mutable_choose()->add_branches();
  choice.clear_outputs();
  choice.mutable_script()->mutable_steps(0)->mutable_choose()->clear_outputs();
  Begin(choice);
  w.Compile(3, kPlus, {0});
  w.Execute(29, 3, {kInput}, {300});
  Hear(2, 0, 1);
  EXPECT_TRUE(Answered());
  EXPECT_EQ(Launches(), 2u);
  EXPECT_THAT(w.Read(300, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, ItsGrantMayComeLater) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5});
  choice.set_granted(false);
  Begin(choice);
  w.Settle();
  EXPECT_EQ(link.sent.size(), 1u) << "the others need not wait";
  EXPECT_FALSE(Answered());
  v1::Command grant;
  grant.mutable_grant()->add_gangs(kChoice);
  w.Do(grant);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
  EXPECT_TRUE(Answered());
}

TEST_F(ChoicesTest, OnlyTheLeaderDecidesAndOnlyOnce) {
  Load(5, kPlus);
  Load(6, absl::StrCat(kPlus, " fail=not_chosen"));
  Prepare();
  Begin(Among({5, 6}, /*leader=*/2));
  Hear(3, 0, 1);
  Hear(2, 7, 1);  // of a choice that is not in the script
  EXPECT_FALSE(Answered());
  Hear(2, 0, 0);
  Hear(2, 0, 1);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, WhatItHearsBeforeItsCommandCounts) {
  Load(5, absl::StrCat(kPlus, " fail=not_chosen"));
  Load(6, kPlus);
  Prepare();
  Hear(2, 0, 1);
  Begin(Among({5, 6}, /*leader=*/2));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, AChoiceInABranchHasALeaderOfItsOwnAndWaitsForIt) {
  Load(5, kPlus);
  Load(6, kPlus);
  Prepare();
  v1::BeginChoice choice = Empty();
  v1::Script::Choose* outer = AddChoose(choice.mutable_script(), 0, kIndexSlot, /*leader=*/1);
  v1::Script* branch = outer->add_branches();
  AddPart(branch, 5, kInputSlot, {kFreeSlot + 1});
  v1::Script::Choose* inner = AddChoose(branch, 1, kIndexSlot, /*leader=*/2);
  inner->clear_outputs();
  inner->add_outputs(kFreeSlot + 2);
  AddPart(inner->add_branches(), 6, kFreeSlot + 1, {kFreeSlot + 2});
  AddPart(branch, 5, kFreeSlot + 2, {kOutputSlot});
  Begin(choice);
  w.Settle();
  EXPECT_EQ(Launches(), 2u) << "what stands before the inner choice";
  Hear(2, 1, 0);
  EXPECT_EQ(Launches(), 4u);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(4, 14));
  EXPECT_TRUE(Answered());
}

TEST_F(ChoicesTest, AnErrorOfTheIndexIsThatOfTheOutputsAndOfTheOtherHosts) {
  Load(5, kPlus);
  Prepare("args=1 outputs=1 dims=2 index=1 fail=out_of_luck");
  Begin(Among({5}));
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("out of luck"));
  EXPECT_TRUE(Answered());
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_THAT(link.sent[0].status().message(), HasSubstr("out of luck [at node 0 of g]"));
  EXPECT_EQ(Launches(), 1u);
}

TEST_F(ChoicesTest, AfterAnErrorOfAnInnerIndexTheScriptGoesOn) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Empty();
  v1::Script* branch = AddChoose(choice.mutable_script(), 0, kIndexSlot)->add_branches();
  v1::Script::Choose* inner = AddChoose(branch, 1, kIndexSlot, /*leader=*/2);
  inner->clear_outputs();
  inner->add_outputs(kFreeSlot + 2);
  inner->add_branches();
  AddPart(branch, 5, kInputSlot, {kOutputSlot});
  Begin(choice);
  Hear(2, 1, 0, absl::InternalError("failed over there"));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12)) << "it does not depend on the inner choice";
}

TEST_F(ChoicesTest, ALeaderThatIsLostFailsWhatItHasNotDecided) {
  Load(5, kPlus);
  Prepare();
  Begin(Among({5}, /*leader=*/2));
  Lose(3);
  EXPECT_FALSE(Answered());
  Lose(2);
  EXPECT_TRUE(Answered());
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("host 2 has left [at node 0 of g]"));
  EXPECT_EQ(Launches(), 1u);
}

TEST_F(ChoicesTest, WhoHasLostTheLeaderTakesTheWordOfAnother) {
  Load(5, absl::StrCat(kPlus, " fail=not_chosen"));
  Load(6, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5, 6}, /*leader=*/3);
  choice.add_hosts(3);
  Begin(choice);
  Hear(2, 0, 0);  // it is not the leader
  Lose(3);
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.sent[0].what(), v1::BranchChosen::QUESTION);
  EXPECT_FALSE(Answered()) << "host 2 may know";
  Hear(2, 0, 1);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, IfNobodyHasHeardOfALostLeadersDecisionAllFail) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5}, /*leader=*/3);
  choice.add_hosts(3);
  Begin(choice);
  Say(2, v1::BranchChosen::QUESTION);
  EXPECT_TRUE(link.sent.empty()) << "the leader may still decide";
  Lose(3);
  ASSERT_EQ(link.sent.size(), 2u);
  EXPECT_EQ(link.sent[0].what(), v1::BranchChosen::LOST);
  EXPECT_EQ(link.sent[1].what(), v1::BranchChosen::QUESTION);
  EXPECT_FALSE(Answered());
  Say(2, v1::BranchChosen::LOST);
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("host 3 has left [at node 0 of g]"));
}

TEST_F(ChoicesTest, WhoAsksIsToldWhenTheDecisionIsKnown) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5}, /*leader=*/3);
  choice.add_hosts(3);
  choice.set_granted(false);           // it does not end yet
  Say(2, v1::BranchChosen::QUESTION);  // before the command
  Begin(choice);
  w.Settle();
  EXPECT_TRUE(link.sent.empty());
  Hear(3, 0, 0);
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.sent[0].what(), v1::BranchChosen::DECISION);
  EXPECT_EQ(link.sent[0].branch(), 0u);
  Say(2, v1::BranchChosen::QUESTION);
  EXPECT_EQ(link.sent.size(), 2u);
}

TEST_F(ChoicesTest, AHostThatAlsoGoesIsNotWaitedFor) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5}, /*leader=*/3);
  choice.add_hosts(3);
  Begin(choice);
  Lose(3);
  EXPECT_FALSE(Answered());
  Lose(2);
  EXPECT_TRUE(Answered());
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("host 3 has left"));
}

TEST_F(ChoicesTest, AChoiceThatHasEndedHereKnowsNothingMore) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5});
  choice.set_op(NamedOp(30));
  Begin(choice);
  w.Settle();
  link.sent.clear();
  v1::BranchChosen asked;
  asked.set_choice(NamedOp(30));
  asked.set_what(v1::BranchChosen::QUESTION);
  w.strand.Post([&] { w.worker->peers().frames().OnBranch(HostId(2), asked); });
  w.Settle();
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.sent[0].what(), v1::BranchChosen::LOST);
}

TEST_F(ChoicesTest, WhatALeaderDecidedBeforeItsLossCounts) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5}, /*leader=*/2);
  choice.set_granted(false);
  Begin(choice);
  Hear(2, 0, 0);
  Lose(2);
  v1::Command grant;
  grant.mutable_grant()->add_gangs(kChoice);
  w.Do(grant);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, ACommandThatComesAgainIsAnsweredAgainAndRunsNothing) {
  Load(5, kPlus);
  Prepare();
  w.connection.repeats = true;
  v1::BeginChoice choice = Among({5});
  choice.set_op(NamedOp(30));
  Begin(choice);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
  const size_t launches = Launches();
  choice.set_gang(77);  // of another controller
  v1::Command command;
  *command.mutable_begin_choice() = choice;
  w.Do(command);
  w.Settle();
  EXPECT_EQ(w.connection.repeated, 1);
  EXPECT_EQ(Launches(), launches);
  w.Compile(3, kPlus, {0});
  w.Execute(29, 3, {kInput}, {300});
  EXPECT_THAT(w.Read(300, 0), ElementsAre(2, 12)) << "it has taken no place";
}

TEST_F(ChoicesTest, AMissingGraphFailsTheChoiceOnAllHosts) {
  Prepare();
  Begin(Among({5}));
  EXPECT_THAT(ErrorOf(kResult), HasSubstr("graph 5, which this host does not have"));
  EXPECT_TRUE(Answered());
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_THAT(link.sent[0].status().message(), HasSubstr("graph 5"));
  w.Compile(3, kPlus, {0});
  w.Execute(29, 3, {kInput}, {300});
  EXPECT_THAT(w.Read(300, 0), ElementsAre(2, 12)) << "the device is free";
}

TEST_F(ChoicesTest, WhatDoesNotFitIsRefused) {
  Load(5, kPlus);
  Prepare();
  std::vector<v1::BeginChoice> bad(6, Among({5}));
  bad[0].set_slots(2);
  bad[1].set_base(77);
  bad[2].add_devices(99);
  bad[3].mutable_script()->mutable_steps(0)->mutable_choose()->clear_branches();
  bad[4].mutable_script()->mutable_steps(0)->mutable_choose()->set_leader(3);
  *bad[5].mutable_script()->add_steps() = bad[5].script().steps(0);
  for (size_t k = 0; k < bad.size(); ++k) {
    bad[k].set_op(*RequestName{SessionId(1), 100 + k, 0, false}.Number());
    Begin(bad[k]);
    w.Settle();
    EXPECT_NE(ErrorOf(kResult), "") << k;
    w.Release(kResult);
  }
  EXPECT_EQ(Launches(), 1u);
  Begin(Among({5}));
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(2, 12));
}

TEST_F(ChoicesTest, ItsSessionsEndEndsAChoiceThatWaits) {
  Load(5, kPlus);
  Prepare();
  v1::BeginChoice choice = Among({5}, /*leader=*/2);
  choice.set_granted(false);
  Begin(choice);
  w.Compile(3, "args=0 outputs=1 dims=2", {0}, /*session=*/2);
  w.ReleaseOwner(1);
  w.Settle();
  EXPECT_TRUE(Answered());
  w.Execute(29, 3, {}, {300}, /*session=*/2);
  EXPECT_THAT(w.Read(300, 0), ElementsAre(1, 1)) << "the device is free";
}

TEST_F(ChoicesTest, ItLeavesNothingBehind) {
  Load(5, kPlus);
  Load(6, kPlus);
  Prepare();
  w.Settle();
  const int64_t arrays = w.worker->arrays();
  const int buffers = w.runtime.live_buffers();
  v1::BeginChoice choice = Empty();
  v1::Script* branch = AddChoose(choice.mutable_script(), 0, kIndexSlot)->add_branches();
  AddPart(branch, 5, kInputSlot, {kFreeSlot + 1});
  AddPart(branch, 6, kFreeSlot + 1, {kOutputSlot});
  Begin(choice);
  EXPECT_THAT(w.Read(kResult, 0), ElementsAre(3, 13));
  w.Release(kResult);
  w.Settle();
  EXPECT_EQ(w.worker->arrays(), arrays);
  EXPECT_EQ(w.runtime.live_buffers(), buffers);
}

// A model carries out the script as a recursive function. Decisions come in any order, from this host and from others, and some before the
// command; sometimes the index has an error.
TEST_F(ChoicesTest, RandomScriptsLaunchWhatAModelDoes) {
  for (uint64_t graph : {5, 6, 7}) Load(graph, kPlus);
  Prepare();
  w.Settle();
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    uint32_t numbers = 0;
    std::vector<uint32_t> leaders, decisions;  // by number; 9: an error
    size_t expected = 0;
    // `runs`: whether the model gets there.
    const std::function<void(v1::Script*, int, bool)> write = [&](v1::Script* script, int depth, bool runs) {
      for (uint32_t k = 0, n = below(3); k < n; ++k) {
        AddPart(script, 5 + below(3), kInputSlot, {kFreeSlot + 1});
        expected += runs ? 1 : 0;
      }
      if (depth == 3 || below(3) == 0) return;
      const uint32_t number = numbers++, branches = 1 + below(3);
      leaders.push_back(1 + below(2));
      decisions.push_back(leaders.back() == 1 ? std::min(branches - 1, 2u) : below(4) == 0 ? 9 : below(branches));
      const uint32_t chosen = decisions.back();
      v1::Script::Choose* choose = AddChoose(script, number, kIndexSlot, leaders.back());
      choose->clear_outputs();
      for (uint32_t b = 0; b < branches; ++b) write(choose->add_branches(), depth + 1, runs && b == chosen);
      if (below(2) == 0) {
        AddPart(script, 5, kInputSlot, {kFreeSlot + 1});
        expected += runs ? 1 : 0;
      }
    };
    v1::BeginChoice choice = Empty();
    choice.set_op(*RequestName{SessionId(1), 100 + seed, 0, false}.Number());
    choice.set_gang(2000 + seed);
    choice.clear_outputs();
    write(choice.mutable_script(), 0, true);
    std::vector<uint32_t> order;
    for (uint32_t number = 0; number < numbers; ++number) {
      if (leaders[number] == 2) order.push_back(number);
    }
    std::shuffle(order.begin(), order.end(), random);
    const size_t early = order.empty() ? 0 : below(static_cast<uint32_t>(order.size()));
    const size_t before = Launches();
    const auto tell = [&](uint32_t number) {
      v1::BranchChosen chosen;
      chosen.set_choice(choice.op());
      chosen.set_number(number);
      chosen.set_branch(decisions[number]);
      if (decisions[number] == 9) *chosen.mutable_status() = ToProto(absl::InternalError("no index"));
      w.strand.Post([this, chosen] { w.worker->peers().frames().OnBranch(HostId(2), chosen); });
    };
    for (size_t k = 0; k < early; ++k) tell(order[k]);
    w.strand.Post([this] { w.worker->peers().frames().Connected(HostId(2), &link); });
    v1::Command command;
    *command.mutable_begin_choice() = choice;
    w.Do(command);
    for (size_t k = early; k < order.size(); ++k) {
      if (below(2) == 0) w.Settle();
      tell(order[k]);
    }
    w.Settle();
    EXPECT_EQ(Launches() - before, expected) << "seed " << seed;
    EXPECT_TRUE(w.connection.done.contains(choice.op())) << "seed " << seed;
  }
  w.Execute(29, 5, {kInput}, {300});
  EXPECT_THAT(w.Read(300, 0), ElementsAre(2, 12)) << "no choice has kept its place";
}

// Decisions about a loop and a choice, of which some bytes are changed.
TEST(Decisions, BytesOfOtherHostsDoNoHarm) {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  for (int trial = 0; trial < 300; ++trial) {
    std::string input;
    for (uint32_t n = below(8); n > 0; --n) {
      v1::LoopTurn turn;
      turn.set_turns(below(200));
      turn.set_ended(below(4) == 0);
      if (below(4) == 0) *turn.mutable_status() = ToProto(absl::InternalError("failed"));
      v1::BranchChosen branch;
      branch.set_number(below(3));
      branch.set_branch(below(3));
      if (below(4) == 0) branch.set_what(static_cast<v1::BranchChosen::What>(below(3)));
      if (below(4) == 0) *branch.mutable_status() = ToProto(absl::InternalError("failed"));
      const bool of_choice = below(2) == 0;
      std::string piece(1, static_cast<char>((of_choice ? 4 : 0) | (below(4) == 0 ? 0 : 8) | (below(3) == 0 ? below(4) : 1)));
      piece += of_choice ? branch.SerializeAsString() : turn.SerializeAsString();
      if (below(3) == 0) piece[below(static_cast<uint32_t>(piece.size()))] = static_cast<char>(random());
      input += {static_cast<char>(piece.size()), 0};
      input += piece;
    }
    TryDecisions(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
}

}  // namespace
}  // namespace pw::worker
