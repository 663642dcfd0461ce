// TryDecisions: gives a worker decisions about a loop and a choice from other hosts, for their fuzzer and their tests. Each decision comes after its length
// in two bytes; its first byte says who sends it and which kind it is. At the end the session goes. Ends the process if the worker has not answered then,
// or has kept anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "pathways/base/log.h"
#include "pathways/base/request_name.h"
#include "pathways/dataflow/frame.h"
#include "pathways/program/command_template.h"
#include "pathways/worker/testing.h"

namespace pw::worker {

// A worker, host 1, with a loop and a choice in a choice, about which host 2 decides. Neither computes anything.
struct DecisionWorld {
  static constexpr uint64_t kLoop = 30, kChoice = 38;

  DecisionWorld() {
    const auto here = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(HostId(1)));
    const auto graph =
        dataflow::Graph::Create({{"a turn", program::kNodeOperator, "", here}}, {}, dataflow::HostLoss::kConcernsNobody);
    dataflow::FrameBuilder frame;
    frame.Add(dataflow::InstallMessage{5, dataflow::PartOf(**graph, HostId(1)), {}});
    v1::Command install, loop, lease, choice;
    install.mutable_dataflow()->set_header(frame.SerializeHeader());
    auto& begin = *loop.mutable_begin_loop();
    begin.set_op(kLoop);
    begin.set_session(1);
    begin.set_graph(5);
    begin.set_leader(2);
    begin.set_base(Names(1, 4));
    for (uint32_t host : {1, 2}) begin.add_hosts(host);
    lease.mutable_loop_lease()->set_session(1);
    lease.mutable_loop_lease()->set_loop(kLoop);
    lease.mutable_loop_lease()->set_turns(100);
    lease.mutable_loop_lease()->set_base(Names(2, 100));
    auto& chosen = *choice.mutable_begin_choice();
    chosen.set_op(kChoice);
    chosen.set_session(1);
    chosen.set_slots(4);
    chosen.set_base(Names(3, 4));
    for (uint32_t host : {1, 2}) chosen.add_hosts(host);
    auto* choose = chosen.mutable_script()->add_steps()->mutable_choose();
    choose->set_leader(2);
    choose->add_branches();
    auto* inner = choose->add_branches()->add_steps()->mutable_choose();
    inner->set_number(1);
    inner->set_leader(2);
    inner->add_outputs(3);
    inner->add_branches();
    for (const v1::Command& command : {install, loop, lease, choice}) w.Do(command);
    w.Settle();
  }
  static uint64_t Names(uint64_t request, uint64_t count) { return *RequestName{SessionId(1), request, 0, false}.Number(count); }

  void Hear(std::string_view piece) {
    if (piece.empty()) return;
    const auto first = static_cast<uint8_t>(piece[0]);
    const HostId from(1 + (first & 3));
    const std::string text(piece.substr(1));
    v1::LoopTurn turn;
    v1::BranchChosen branch;
    if ((first & 4) != 0 ? !branch.ParseFromString(text) : !turn.ParseFromString(text)) return;
    if ((first & 8) != 0) {
      turn.set_loop(kLoop);
      branch.set_choice(kChoice);
    }
    w.strand.Post([this, first, from, turn, branch] {
      FrameChannel& frames = w.worker->peers().frames();
      (first & 4) != 0 ? frames.OnBranch(from, branch) : frames.OnTurn(from, turn);
    });
    w.Settle();
  }

  WorkerHarness w;
};

inline void TryDecisions(const uint8_t* data, size_t size) {
  DecisionWorld world;
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] | data[1] << 8, size - 2);
    world.Hear({reinterpret_cast<const char*>(data + 2), length});
    data += 2 + length;
    size -= 2 + length;
  }
  world.w.ReleaseOwner(1);
  world.w.Settle();
  PW_CHECK(world.w.connection.done.contains(DecisionWorld::kLoop) && world.w.connection.done.contains(DecisionWorld::kChoice));
  PW_CHECK(world.w.worker->arrays() == 0);
}

}  // namespace pw::worker
