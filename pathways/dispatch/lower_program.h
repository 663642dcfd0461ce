// From what the hosts do in one run of a program (program/host_programs.h, which the IR makes) to each host's commands, as templates:
// where a step stands for the shards of an array, its shards on the host are written out here, by the same planners as single calls
// (plan_execute, plan_move). Done once for each placement; running the result costs one message for each host, whatever the number of
// nodes and shards.
//
// Names. Intermediate values and transfers are name slots, numbered alike on all hosts. Arguments and results are numbered per host, so
// that a host is only told of those that concern it.
//
// Pure.
//
// Invariants:
//   LP-1  on every host, each value is made before it is used, and released exactly once unless it is a result, an argument that
//         the caller keeps, or taken over by a Compute
//   LP-2  host part h's commands of node n stand before those of node n + 1
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/program/host_programs.h"
#include "pathways/program/program.h"
#include "pathways/resource/topology.h"
#include "pathways/v1/worker.pb.h"

namespace pw::dispatch {

struct LoweredHost {
  HostId host;
  std::vector<::pathways::v1::Command> commands;
  std::vector<int> node_of;       // of each command
  std::vector<uint32_t> args;     // this host's k-th argument is the program's args[k]-th array
  std::vector<uint32_t> results;  // likewise, of the program's results
};

struct LoweredProgram {
  std::vector<LoweredHost> hosts;                 // ascending
  uint64_t names = 0;                             // name slots of a run
  uint32_t arrays = 0;                            // argument arrays of a run: one for each Arg, or one for each of its shards
  std::vector<std::vector<HostId>> result_hosts;  // of each result, ascending
  std::vector<int> result_makers;                 // the node that makes each result: a Compute, Transfer or Arg
};

// REQUIRES: all devices of the program are there. Errors name the node.
absl::StatusOr<LoweredProgram> LowerProgram(const program::HostPrograms& steps, const program::Program& program,
                                            const std::vector<program::ExecutablePtr>& executables,
                                            const resource::Topology& topology);

}  // namespace pw::dispatch
