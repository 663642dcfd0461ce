// Choices: this host's part in the choices of programs (worker.proto: BeginChoice; peer.proto: BranchChosen).
//
// The hosts decide which branch of a choice runs, without the controller. The leader, the host that has the index, reads it when the computation
// that makes it has ended, and tells the others. Each host then dispatches its commands of the chosen branch (ProgramNodes), which wait for their inputs
// as usual. A branch may have choices: they are steps of the same script, and each has a leader of its own.
//
// Order. The controller's scheduler has given the choice one place in the order of gangs, on the devices of all branches: a lease (LaunchOrder). It
// gives up its place on all devices when its last command has been dispatched. Within the lease, launches have the order of the script, for a host
// goes on after a choice only when it has dispatched the chosen branch. So all devices have the same order on all hosts, although hosts hear of
// decisions at different times, and nothing is launched for a branch that is not chosen.
//
// Errors are values. If the index has an error, so have the outputs of this choice, and the script goes on.
//
// Lost leaders. A leader that goes may have told some hosts and not others. A host that has lost it asks the others, and takes their word. Each answers
// when it has the decision, or has lost the leader too. If none has it, the outputs have the error of the loss on all hosts.
//
// Invariants:
//   CH-1  all hosts that stay carry out the same steps, unless their session has ended. But a host that has ended its part of the choice may have run
//         a branch that others, who learn of no decision any more, do not run
//   CH-2  the choice's op is answered once, after all commands of its steps, with their device time
//   CH-3  the lease gives up its place when the last step has been dispatched, whatever the decisions were
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/v1/peer.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/execute/run_context.h"
#include "pathways/worker/transfer/frame_channel.h"

namespace pw::worker {

class Choices final : private FrameChannel::BranchReceiver {
 public:
  explicit Choices(RunContext of);
  ~Choices() override;

  void Begin(const pathways::v1::BeginChoice& command);
  // Ends the choices of the session.
  void ReleaseOwner(SessionId session);

  int64_t running() const { return static_cast<int64_t>(choices_.size()); }

 private:
  struct Choice;
  using ChoiceRef = std::shared_ptr<Choice>;
  struct Decision {
    uint32_t branch = 0;
    absl::Status status;  // not OK: no branch runs
  };
  using Heard = std::pair<HostId, pathways::v1::BranchChosen>;
  static constexpr size_t kMostEarly = 4096;  // decisions of choices whose command has not come
  static constexpr uint32_t kMostSlots = 1u << 24;

  // FrameChannel::BranchReceiver
  void OnBranch(HostId from, const pathways::v1::BranchChosen& chosen) override;
  void OnHostGone(HostId host, const absl::Status& status) override;

  absl::Status Check(const pathways::v1::BeginChoice& command) const;
  absl::Status Examine(Choice& choice, const pathways::v1::Script& script) const;
  absl::Status ExamineChoose(Choice& choice, const pathways::v1::Script::Choose& choose) const;
  void TakeInputs(Choice& choice);
  void Refuse(const ChoiceRef& choice, const absl::Status& status);
  void Keep(HostId from, const pathways::v1::BranchChosen& chosen);
  void TakeEarly(const ChoiceRef& choice);
  void Hear(Choice& choice, HostId from, const pathways::v1::BranchChosen& chosen);

  void Advance(const ChoiceRef& choice);
  // Returns false if the script waits for the decision.
  bool Follow(const ChoiceRef& choice, const pathways::v1::Script::Choose& choose);
  void ReadIndex(const ChoiceRef& choice, const pathways::v1::Script::Choose& choose);
  void Decide(Choice& choice, const pathways::v1::Script::Choose& choose, const Decision& decision);
  void Tell(const Choice& choice, uint32_t number, const Decision& decision);
  void TellOne(const Choice& choice, HostId to, uint32_t number, const Decision& decision);
  void Settle(Choice& choice, uint32_t number, Decision decision);
  // Lost leaders.
  void Answer(Choice& choice, HostId asker, uint32_t number);
  void Ask(Choice& choice, uint32_t number);
  void GiveUpIfAllLost(Choice& choice, uint32_t number);
  void Say(const Choice& choice, HostId to, uint32_t number, pathways::v1::BranchChosen::What what) const;
  void RunPart(const ChoiceRef& choice, const pathways::v1::Script::Part& part);
  void EndPart(const ChoiceRef& choice, const absl::Status& error, double device_microseconds);

  void Finish(const ChoiceRef& choice, const absl::Status& status);
  void AnswerIfOver(const ChoiceRef& choice);

  const RunContext of_;
  absl::flat_hash_map<uint64_t, ChoiceRef> choices_;  // by op
  std::map<uint64_t, std::vector<Heard>> early_;      // by op
};

}  // namespace pw::worker
