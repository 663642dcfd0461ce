// ChoiceRuns: the choices of a session's programs that hosts decide (program.proto, Select) and that are under way. ProgramSteps owns it and begins
// them.
//
// This class sends each host one command when the program is called, and hears of its end: nothing passes the controller between the computation of
// the index and the chosen branch (worker/execute/choices.h). A choice is a gang of the scheduler on the devices of all its branches. It is granted after the
// gangs that make its inputs, as any computation, and what reads its outputs is granted after it. Its cost is the measured device time of the branch
// that ran.
//
// A gang is not divided, so a choice whose branches are expected to take longer than a stage of a program is left to the controller, which sends the
// chosen branch in stages. The cost of such a choice is measured anew from time to time.
//
// Invariants:
//   CV-1  `done` is called once, when all hosts have ended their part of the choice, with its first error
//   CV-2  a choice waits for no gang but those that make its inputs. It overwrites no array that another gang may read
// Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/runs/choice_plan.h"

namespace pw::controller {

class ChoiceRuns {
 public:
  using Record = SessionContext::Record;
  using EntryRef = std::shared_ptr<const ProgramEntry>;

  struct Call {
    EntryRef entry;               // of the program
    int node = 0;                 // the Select
    const HostChoice& choice;     // of `entry`
    std::vector<Record> inputs;   // of the node, the index first
    std::vector<Record> outputs;  // expected on their hosts
    NameScope names;              // an id for each slot, and an op
    std::function<void(const absl::Status&)> done;
  };

  // `context` must outlive this.
  explicit ChoiceRuns(SessionContext* context) : context_(context), fabric_(context->fabric()) {}

  // Returns whether the hosts choose in this call: they are all present, and the branches are expected to be short.
  bool HostsChoose(const ProgramEntry& entry, const HostChoice& choice) const;
  // REQUIRES: HostsChoose.
  void Start(Call call);
  // Gives the pending outputs of choices on these devices the error, with the node.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);

 private:
  struct Choice {
    EntryRef entry;
    int node = 0;
    WeakArrays outputs;
    int left = 0;  // hosts that have not ended their part
    absl::Status error;
    std::function<void(const absl::Status&)> done;
  };
  using ChoiceRef = std::shared_ptr<Choice>;

  void Send(const Call& call, const ChoiceRef& choice, HostId host, ::pathways::v1::BeginChoice command, gang::GangId gang);
  void OnHostEnd(const ChoiceRef& choice, uint64_t op, const absl::Status& status);

  SessionContext* const context_;
  Fabric* const fabric_;
  std::map<uint64_t, ChoiceRef> choices_;  // by op
};

}  // namespace pw::controller
