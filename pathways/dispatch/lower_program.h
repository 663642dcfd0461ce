// LowerProgram: lowers the hosts' steps of a program (program/host_programs.h, made by the IR) to a dataflow graph. Each node of the program
// that takes commands is a node of the graph, with one shard on each host concerned; its config there are the host's commands (v1.NodeCommands).
// The commands are templates: slots stand for the ids of arrays and transfers, and each run fills them in (program/command_template.h).
// The controller does this once per placement and installs the graph. A run then costs one message per host, for any number of nodes
// and shards (worker/execute/program_nodes.h).
//
// The graph has no edges. A command waits for its inputs by its host's own order of readers and writers; between hosts, only data
// travels. The graph does not report the ends of runs: the commands have ops, whose completions the controller counts.
//
// A step names whole arrays; here its shards on each host are written out, by the same planners as for single calls (plan_execute,
// plan_move).
//
// Slots. Intermediate values and transfers have name slots, with the same numbers on all hosts. Arguments and results are numbered per
// host, so that the message of a run names only those that concern the host.
//
// Pure.
//
// Invariants:
//   LP-1  on every host, each value is made before it is used, and released exactly once. Not released are results, arguments
//         that the caller keeps, and values donated to a Compute
//   LP-2  a host's commands for node n come before those for node n + 1
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/dataflow/graph/graph.h"
#include "pathways/program/host_programs.h"
#include "pathways/program/program.h"
#include "pathways/resource/topology.h"
#include "pathways/v1/worker.pb.h"

namespace pw::dispatch {

struct LoweredHost {
  HostId host;
  std::vector<::pathways::v1::Command> commands;
  std::vector<int> node_of;       // the program's node of each command
  std::vector<uint32_t> args;     // this host's k-th argument is the program's args[k]-th array
  std::vector<uint32_t> results;  // this host's k-th result is the program's results[k]-th
};

struct LoweredProgram {
  std::vector<LoweredHost> hosts;                 // ascending
  uint64_t names = 0;                             // number of name slots of a run
  bool spans = false;                             // it has launches over several hosts
  uint32_t arrays = 0;                            // number of argument arrays of a run: one per Arg, or one per shard of it
  std::vector<std::vector<HostId>> result_hosts;  // of each result, ascending
  std::vector<int> result_makers;                 // the node that makes each result: a Compute, Transfer or Arg
  std::shared_ptr<const dataflow::Graph> graph;   // null: no host has a command
};

// Lowers a program. REQUIRES: the topology has all devices of the program. Errors name the node.
absl::StatusOr<LoweredProgram> LowerProgram(const program::HostPrograms& steps, const program::Program& program,
                                            const std::vector<program::ExecutablePtr>& executables,
                                            const resource::Topology& topology);

}  // namespace pw::dispatch
