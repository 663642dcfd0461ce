// LoopRuns: the loops of a session's programs that are under way (program.proto, While). ProgramSteps owns it and begins them.
//
// The hosts of a loop run its turns by themselves (worker/execute/loops.h). This class sends each host one command at the beginning, and then the
// leases, each of which lets the hosts begin some turns. A lease is a gang of the scheduler: it is granted like any computation, keeps its
// devices until its last turn has been launched, and takes no longer than a stage of a program (LeaseLength). Between two leases other
// clients take their turns. So the controller sends and receives a few messages for each lease, and none for a turn.
//
// Two leases are under way, so that the devices need not wait for the controller between them. When one ends, the next is submitted.
//
// Invariants:
//   LR-1  `done` is called once, when all hosts have ended their part of the loop, with its first error
//   LR-2  the hosts of a loop get the same leases, in the same order, until all of them have ended. If a device of the loop is lost, one more comes,
//         which refuses further turns: so the hosts that are left skip the same turns
//   LR-3  a lease waits for no gang but the one before it, and the first one for those that make the inputs. It overwrites no array that
//         another gang may read
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

namespace pw::controller {

class LoopRuns {
 public:
  using Record = SessionContext::Record;
  using EntryRef = std::shared_ptr<const ProgramEntry>;

  struct Call {
    EntryRef entry;               // of the program
    int node = 0;                 // the loop
    std::vector<Record> inputs;   // of the node: the predicate, the constants, the carry
    std::vector<Record> outputs;  // expected on their hosts
    NameScope names;              // three ids for each input, and an op
    std::function<void(const absl::Status&)> done;
  };

  // `context` must outlive this.
  explicit LoopRuns(SessionContext* context) : context_(context), fabric_(context->fabric()) {}

  void Start(Call call);
  // Gives the pending outputs of loops on these devices the error, with the node.
  void OnDevicesLost(const absl::flat_hash_set<DeviceId>& lost, const absl::Status& error);

 private:
  using Hosts = std::map<HostId, std::vector<int32_t>>;  // with the local devices on which a turn executes
  struct Loop;
  using LoopRef = std::shared_ptr<Loop>;

  static void FindHosts(const resource::Topology& topology, Loop& loop);
  void SendBegin(Call& call, Loop& loop, HostId leader);
  ::pathways::v1::BeginLoop Describe(const Call& call, const Loop& loop, const dispatch::LoweredHost& host) const;
  void Submit(const LoopRef& loop, std::vector<ArrayId> args);
  void SendLease(const LoopRef& loop, const ::pathways::v1::LoopLease& lease, const Gangs::Ticket& ticket);
  void OnLeaseEnd(const LoopRef& loop, const std::shared_ptr<int>& left, std::optional<double> turn_microseconds);
  void OnHostEnd(const LoopRef& loop, const absl::Status& status);

  SessionContext* const context_;
  Fabric* const fabric_;
  std::map<uint64_t, LoopRef> loops_;  // by op
};

}  // namespace pw::controller
