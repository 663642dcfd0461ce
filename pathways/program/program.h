// Program: a user's program of many nodes, read from its bytes (proto/pathways/v1/program.proto says what they mean).
//
// A dataflow graph with one node for each sharded computation, however many devices it runs on (paper 4.2). Immutable once read.
// ParseProgram checks everything that the bytes alone can tell; the IR (ir/compile.h) the rest, when the executables of its Compute nodes
// have been compiled and their types are known.
//
// Invariants:
//   PR-1  a node's inputs are values made by nodes before it: the order of the nodes is a topological one
//   PR-2  values are numbered in the order of the nodes that make them; producer_of(value) is exact
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/program/executable.h"
#include "pathways/v1/program.pb.h"

namespace pw::program {

enum class NodeKind { kArg, kCompute, kTransfer, kResult, kHostCall, kSelect };

struct Node {
  NodeKind kind = NodeKind::kArg;
  std::string location;
  std::vector<int> inputs;  // values
  int first_output = 0;     // value
  int num_outputs = 0;
  int executable = -1;                                             // of a Compute: index in executables
  std::shared_ptr<const buffers::ArraySpec> spec;                  // of an Arg
  int sharding = -1;                                               // of a Transfer: index in proto->shardings()
  bool donated = false;                                            // Arg
  bool apart = false;                                              // Arg: one array for each shard
  uint64_t callback = 0;                                           // of a HostCall
  std::string function;                                            // likewise, for people
  std::vector<int> branches;                                       // of a Select, whose first input is the index
  std::vector<std::shared_ptr<const buffers::ArraySpec>> outputs;  // of a HostCall or Select
  int number = -1;  // by which it is described, if it is not where it stood (program/cut.h)

  // It waits for a value.
  bool waits() const { return kind == NodeKind::kHostCall || kind == NodeKind::kSelect; }
};

struct Program {
  std::string name;
  std::vector<Node> nodes;
  std::vector<int> producer_of;                          // the node of each value
  std::vector<int> args;                                 // nodes
  std::vector<int> results;                              // nodes
  std::shared_ptr<const ::pathways::v1::Program> proto;  // modules, options, shardings
  std::vector<Program> branches;                         // of the same proto; theirs are the ones before them in this list

  // "node 37 of step (train.py:12 in loss)"
  std::string Describe(int node) const;
  // The error with the node in it, unless there is one already.
  absl::Status At(int node, const absl::Status& status) const;
};

inline constexpr absl::string_view kProgramMagic = "pathways.v1.Program\n";

// INVALID_ARGUMENT, naming the node, for anything that is not a program: bytes that do not parse, values used before they are
// made, indices out of range, unknown types, arrays too large to count, more of anything than these.
inline constexpr int kMaxNodes = 1 << 18;
inline constexpr int kMaxValues = 1 << 20;
inline constexpr int kMaxInputs = 1 << 24;      // of all nodes together
inline constexpr int kMaxBranches = 1 << 11;    // each knows those before it
inline constexpr int kMaxWaiting = 1 << 10;     // nodes that wait for values, in the program or a branch
inline constexpr int64_t kMaxShards = 1 << 24;  // of all shardings together, once for each rank that they are used with
absl::StatusOr<Program> ParseProgram(absl::string_view bytes);

// The shardings of a program, for arrays of each rank. Each is made once, and nodes share it: a program may have many nodes on many devices.
class Shardings {
 public:
  // `proto` outlives this.
  explicit Shardings(const ::pathways::v1::Program* proto) : proto_(proto) {}
  // Errors as of ParseProgram.
  absl::StatusOr<buffers::Sharding> Of(uint32_t index, int rank);

 private:
  absl::StatusOr<buffers::Sharding> Make(uint32_t index, int rank) const;

  const ::pathways::v1::Program* const proto_;
  absl::flat_hash_map<std::pair<uint32_t, int>, buffers::Sharding> made_;
  int64_t shards_ = 0;
};

using ExecutablePtr = std::shared_ptr<const Executable>;

// A program, what its executables compiled to, and what its results are: all types agree, which the IR has checked.
struct TypedProgram {
  Program program;
  std::vector<ExecutablePtr> executables;  // in the program's order
  std::shared_ptr<const std::vector<buffers::ArraySpec>> result_specs;
};

// Marks where in the user's program an error began: in its message, so that it crosses every wire. A mark is never put twice.
absl::Status WithLocation(const absl::Status& status, absl::string_view location);

}  // namespace pw::program
