// ProgramStages: cuts a run of a program of many nodes into gangs. GraphPrograms submits each stage as a gang of its own.
//
// The scheduler decides between gangs. A run that is one gang would hold its devices for its whole duration, regardless of the
// shares of other clients. So a run is a chain of stages. Each stage is a gang that follows the previous one. It has as many
// Compute nodes, in program order, as are expected to take no longer than a limit. A program that is expected to be short is one
// stage, and costs as much as a single computation.
//
// Node durations are learned from the stages' measured times, spread evenly over the nodes of a stage. The plan is made anew when a stage
// of several nodes takes more than twice the limit, or when half as many stages would do; so it converges.
//
// Pure.
//
// Invariants:
//   PS-1  every Compute node is in exactly one stage, and the stages' nodes are in the order of the program
//   PS-2  on each host, the Executes of stage i stand before those of stage i + 1
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pathways/base/ids.h"
#include "pathways/dispatch/lower_program.h"
#include "pathways/program/program.h"

namespace pw::controller {

struct ProgramStage {
  ExecutableId id;                 // the key of its measured cost
  int nodes = 0;                   // Compute nodes
  int64_t expected_ns = 0;         // the estimate when the stage was planned
  std::vector<DeviceId> devices;   // the physical devices of its nodes, ascending
  std::vector<HostId> hosts;       // the hosts of these devices, ascending
  std::vector<uint32_t> executes;  // for each host of the lowered program: the number of its Executes in this stage
};

class ProgramStages {
 public:
  // A node that was never measured is expected to take `default_ns`. `typed` and `lowered` must outlive this.
  ProgramStages(const program::TypedProgram* typed, const dispatch::LoweredProgram* lowered, int64_t limit_ns,
                int64_t default_ns);

  struct Costs {
    absl::FunctionRef<int64_t(ExecutableId)> predict;  // the cost of a stage; negative: not measured yet
    absl::FunctionRef<ExecutableId()> new_id;
  };
  // Returns the stages of the next run, valid until the next call. Empty: the program computes nothing.
  const std::vector<ProgramStage>& Plan(const Costs& costs);

  const std::vector<ProgramStage>& planned() const { return stages_; }

  // Returns the ids of all stages ever planned.
  const std::vector<ExecutableId>& ids() const { return ids_; }

 private:
  void Learn(const Costs& costs);
  bool Settled(const Costs& costs) const;
  void Cut(const Costs& costs);
  void AddHosts(ProgramStage* stage, int first_node, int end_node) const;

  const program::TypedProgram* const typed_;
  const dispatch::LoweredProgram* const lowered_;
  const int64_t limit_ns_;
  std::vector<int> computes_;     // indices of the Compute nodes
  std::vector<int64_t> node_ns_;  // the expected duration of each
  std::vector<ProgramStage> stages_;
  std::vector<ExecutableId> ids_;
};

}  // namespace pw::controller
