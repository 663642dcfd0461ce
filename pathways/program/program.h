// Program: a user's program of many nodes, parsed from its bytes (specified in proto/pathways/v1/program.proto).
//
// A program is a dataflow graph with one node per sharded computation, however many devices it runs on (paper 4.2). Values are the
// arrays that travel on its edges. Immutable.
// ParseProgram checks all that the bytes alone can show. The IR (ir/compile.h) checks the rest, once the executables of the Compute
// nodes have been compiled and their types are known.
//
// Invariants:
//   PR-1  a node's inputs are values made by nodes before it: the nodes stand in topological order
//   PR-2  values are numbered in the order of the nodes that make them; producer_of[value] is that node
//   PR-3  all HostComputes with the same executable, in the program and its branches, take and make arrays of the same specs
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

enum class NodeKind { kArg, kCompute, kTransfer, kResult, kHostCall, kSelect, kHostCompute, kWhile, kRoute };

struct Node {
  NodeKind kind = NodeKind::kArg;
  std::string location;
  std::vector<int> inputs;  // values
  int first_output = 0;     // value
  int num_outputs = 0;
  int executable = -1;                                             // of a Compute or HostCompute: index in executables
  std::shared_ptr<const buffers::ArraySpec> spec;                  // of an Arg
  int sharding = -1;                                               // of a Transfer: index in proto->shardings()
  bool donated = false;                                            // Arg
  bool apart = false;                                              // Arg: one array for each shard
  uint64_t callback = 0;                                           // of a HostCall
  std::string function;                                            // of a HostCall or HostCompute: its name, for messages
  std::vector<int> branches;                                       // of a Select (input 0 is the index); of a While: its turn
  std::vector<std::shared_ptr<const buffers::ArraySpec>> takes;    // of a HostCompute or Route: its inputs
  std::vector<std::shared_ptr<const buffers::ArraySpec>> outputs;  // of a node that waits
  int groups = 0;                                                  // of a Route: groups of experts
  bool back = false;                                               // of a Route
  int number = -1;  // the node's number in messages, if it is not its position (program/cut.h)

  // Returns whether this is a waiting node: the nodes that read its outputs wait for their values (program/cut.h).
  bool waits() const {
    return kind == NodeKind::kHostCall || kind == NodeKind::kSelect || kind == NodeKind::kHostCompute || kind == NodeKind::kWhile ||
           kind == NodeKind::kRoute;
  }
  // The number of inputs of a While that are the same in each turn. Before them is the predicate, after them the carry.
  int constants() const { return static_cast<int>(inputs.size()) - 1 - num_outputs; }
};

struct Program {
  std::string name;
  std::vector<Node> nodes;
  std::vector<int> producer_of;                          // the node of each value
  std::vector<int> args;                                 // nodes
  std::vector<int> results;                              // nodes
  std::shared_ptr<const ::pathways::v1::Program> proto;  // modules, options, shardings
  std::vector<Program> branches;                         // of the same proto; each may use those before it in this list

  // Returns, for example, "node 37 of step: train.py:12 in loss".
  std::string Describe(int node) const;
  // Returns the status with the node added to its message, unless it names one already.
  absl::Status At(int node, const absl::Status& status) const;
};

// The format of executables that are Python functions (session/host_function.h).
inline constexpr char kHostFunctionFormat[] = "pathways.v1.HostFunction";

// Precedes the bytes of a program in a client's compile request; ParseProgram takes only the bytes after it.
inline constexpr absl::string_view kProgramMagic = "pathways.v1.Program\n";

// Limits of ParseProgram.
inline constexpr int kMaxNodes = 1 << 18;       // of the program and its branches together
inline constexpr int kMaxValues = 1 << 20;      // in the program or in a branch
inline constexpr int kMaxInputs = 1 << 24;      // of all nodes together
inline constexpr int kMaxBranches = 1 << 11;    // each may use those before it
inline constexpr int kMaxWaiting = 1 << 10;     // waiting nodes, in the program or in a branch
inline constexpr int64_t kMaxShards = 1 << 24;  // of all shardings together, counted once per rank that they are used with
// Parses a program. Returns INVALID_ARGUMENT, which names the node, for bytes that do not parse, values used before they are
// made, indices out of range or unknown types. The same for arrays whose size overflows, and for programs beyond the limits
// above.
absl::StatusOr<Program> ParseProgram(absl::string_view bytes);

// Shardings: a cache of a program's shardings, by index in proto->shardings() and rank, so that nodes with the same sharding share it.
class Shardings {
 public:
  // `proto` outlives this.
  explicit Shardings(const ::pathways::v1::Program* proto) : proto_(proto) {}
  // Returns sharding `index` for arrays of this rank. Errors are those of ParseProgram.
  absl::StatusOr<buffers::Sharding> Of(uint32_t index, int rank);

 private:
  absl::StatusOr<buffers::Sharding> Make(uint32_t index, int rank) const;

  const ::pathways::v1::Program* const proto_;
  absl::flat_hash_map<std::pair<uint32_t, int>, buffers::Sharding> made_;
  int64_t shards_ = 0;
};

using ExecutablePtr = std::shared_ptr<const Executable>;

// A program with its compiled executables and the specs of its results. The IR has checked that all types agree.
struct TypedProgram {
  Program program;
  std::vector<ExecutablePtr> executables;  // in the program's order
  std::shared_ptr<const std::vector<buffers::ArraySpec>> result_specs;
};

// Adds the location in the user's program to an error's message, so that it survives every transport. Does nothing if the message has
// a location already.
absl::Status WithLocation(const absl::Status& status, absl::string_view location);
// Returns `status` at the location that `error` tells, if it tells one.
absl::Status WithLocationOf(const absl::Status& error, const absl::Status& status);

}  // namespace pw::program
