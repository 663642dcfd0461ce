// HostPrograms: what the hosts do in one run of a program, without shards: what the IR lowers a program to, and what dispatch makes
// each host's commands from.
//
// Hosts with the same part share one list of steps. A host does its own part of a step: the shards that lie there. Arrays and transfers
// are slots (command_template.h); arguments and results are numbered as the program numbers them.
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
    kExecute,  // `executable` takes `arrays` and makes `made`, leaving those of `kept` as they are
    kMove,     // its part of a move
    kAlias,  // `made` is another name for its shards of `arrays`; `apart`: shard i is the only one of the array that comes i later
    kRelease,  // of `arrays`; `apart`: of those that come behind, one for each shard
  };
  Kind kind = Kind::kExecute;
  int node = 0;  // of the program
  std::vector<uint64_t> arrays;
  std::vector<uint64_t> made;
  int executable = -1;  // in the program's order
  std::vector<int32_t> kept;
  uint64_t launch = 0;
  int move = -1;
  bool apart = false;
  SpecPtr spec;  // of an alias, and of what is apart
};

// One transfer; all hosts that have a part in it name it by its index.
struct HostMove {
  uint64_t source = 0;
  uint64_t target = 0;
  SpecPtr source_spec;
  SpecPtr target_spec;
};

struct HostProgram {
  std::vector<HostId> hosts;
  std::vector<HostStep> steps;  // ascending by node
};

struct HostPrograms {
  std::vector<HostProgram> programs;
  std::vector<HostMove> moves;
  uint64_t names = 0;  // name slots that are taken
  struct Arg {
    SpecPtr spec;
    bool apart = false;
  };
  std::vector<Arg> args;
  struct Result {
    SpecPtr spec;
    int maker = 0;  // the node that makes it
  };
  std::vector<Result> results;
};

}  // namespace pw::program
