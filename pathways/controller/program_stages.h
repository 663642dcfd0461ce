// ProgramStages: into how many gangs a run of a program of many nodes is cut.
//
// The scheduler decides between gangs, so a run that were one gang would hold its devices as long as it takes, whatever others are
// entitled to. A run is therefore a chain of stages: as many of its Compute nodes, in the order of the program, as are expected to
// take no more than a limit, each stage a gang that follows the one before it. A program that is short, by what is known of it, is
// one stage and costs what a single computation costs.
//
// What nodes take is learned from the stages' measured times, spread evenly over a stage's nodes. The plan is made anew when a stage
// that could be cut takes more than twice the limit, or when half as many stages would do; so it settles.
//
// Pure.
//
// Invariants:
//   PS-1  every Compute node is in exactly one stage, and the stages' nodes are in the order of the program
//   PS-2  on each host, the commands of stage i stand before those of stage i + 1
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pathways/base/ids.h"
#include "pathways/dispatch/lower_program.h"
#include "pathways/program/program.h"

namespace pw::controller {

struct ProgramStage {
  ExecutableId id;                 // by which the scheduler knows what it costs
  int nodes = 0;                   // Compute nodes
  int64_t expected_ns = 0;         // when it was planned
  std::vector<DeviceId> devices;   // physical ones, that they occupy; ascending
  std::vector<HostId> hosts;       // of these devices, ascending
  std::vector<uint32_t> commands;  // of each host of the lowered program: how many of its commands belong to the stage
  std::vector<uint32_t> executes;  // likewise: how many of those are Executes
};

class ProgramStages {
 public:
  // A node of which nothing is known takes `default_ns`. The program and its lowered form outlive this.
  ProgramStages(const program::TypedProgram* typed, const dispatch::LoweredProgram* lowered, int64_t limit_ns,
                int64_t default_ns);

  struct Costs {
    absl::FunctionRef<int64_t(ExecutableId)> predict;  // of a stage; negative: it has not been measured
    absl::FunctionRef<ExecutableId()> new_id;
  };
  // For the next run. Valid until the next call. Empty: the program computes nothing.
  const std::vector<ProgramStage>& Plan(const Costs& costs);

  const std::vector<ProgramStage>& planned() const { return stages_; }

  // Of all stages that there have been.
  const std::vector<ExecutableId>& ids() const { return ids_; }

 private:
  void Learn(const Costs& costs);
  bool Settled(const Costs& costs) const;
  void Cut(const Costs& costs);
  void AddHosts(ProgramStage* stage, int first_node, int end_node) const;

  const program::TypedProgram* const typed_;
  const dispatch::LoweredProgram* const lowered_;
  const int64_t limit_ns_;
  std::vector<int> computes_;     // nodes
  std::vector<int64_t> node_ns_;  // what each of them is expected to take
  std::vector<ProgramStage> stages_;
  std::vector<ExecutableId> ids_;
};

}  // namespace pw::controller
