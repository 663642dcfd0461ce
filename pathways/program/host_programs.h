// HostPrograms: the steps that each host carries out in one run of a program. The IR lowers programs to this form (ir/compile.h);
// dispatch/lower_program.h makes a dataflow graph of them, with each host's commands.
//
// Steps name whole arrays, not shards: each host carries out a step for its own shards. Hosts with the same steps share one list.
// Steps name arrays by slots (command_template.h), whose values each run fills in. A slot stands for the program's k-th argument
// array, its k-th result, or the k-th other name of the run (intermediate arrays, launches).
//
// `apart` marks an argument that the caller passes as one array per shard. These arrays have consecutive slots.
//
// Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"

namespace pw::program {

using SpecPtr = std::shared_ptr<const buffers::ArraySpec>;

struct HostStep {
  enum class Kind {
    kExecute,  // `executable` takes `arrays` and makes `made`; it does not donate the inputs whose indices are in `kept`
    kMove,     // the host's part of the transfer `move`
    kAlias,  // `made` becomes another name for the host's shards of `arrays`; `apart`: shard i is the array in the i-th slot after arrays[0]
    kRelease,  // releases `arrays`; `apart`: those in the i-th slot after arrays[0], for each shard i on the host
  };
  Kind kind = Kind::kExecute;
  int node = 0;  // the program's node to which the step belongs
  std::vector<uint64_t> arrays;
  std::vector<uint64_t> made;
  int executable = -1;  // index in the program's executables
  std::vector<int32_t> kept;
  uint64_t launch = 0;  // of kExecute over several hosts: the slot of the launch's id, the same on all hosts; else 0
  int move = -1;        // index in HostPrograms::moves
  bool apart = false;
  SpecPtr spec;  // of kAlias: of the alias; of kRelease with `apart`: of the whole array
};

// One transfer: copies an array to another sharding. Steps name it by its index.
struct HostMove {
  uint64_t source = 0;  // slots
  uint64_t target = 0;
  SpecPtr source_spec;
  SpecPtr target_spec;
};

// The steps of all hosts that have the same steps.
struct HostProgram {
  std::vector<HostId> hosts;
  std::vector<HostStep> steps;  // ascending by node
};

struct HostPrograms {
  std::vector<HostProgram> programs;
  std::vector<HostMove> moves;
  uint64_t names = 0;  // number of name slots in use
  struct Arg {
    SpecPtr spec;
    bool apart = false;
  };
  std::vector<Arg> args;  // in the program's order; one that is `apart` takes one argument slot per shard
  struct Result {
    SpecPtr spec;
    int maker = 0;  // the node that makes it
  };
  std::vector<Result> results;
};

}  // namespace pw::program
