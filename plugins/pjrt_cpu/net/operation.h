// One collective operation among several processes, once the devices of this one have gathered: one thread does it for all of them.
//
// A process sends one message to each other process that needs something of it, so what crosses between processes does not depend on
// how many devices each has.
//
// Sums. A small all-reduce sends what every device contributes, and each process adds it up in the order of the ranks: the same bits as in
// one process. A large one adds up inside the process first and is cut into as many parts as there are processes, each of which
// reduces one: every process sends and receives 2 (P-1)/P of the data, the least there is; sums associate by processes.
//
// Islands. If the processes belong to several islands, what goes between islands goes once: sums are reduced inside each island
// first, cut over its processes, each exchanges its part with those that have it in the other islands, and spreads the result
// again; what is gathered or broadcast crosses to one process of each island, which hands it on. Islands need not have equally many
// processes: those of a smaller one have several parts each. Other operations have nothing to save: every block of theirs has one
// receiver. What crosses between I islands, of all processes together, however many each has:
//   all-reduce of D bytes             2 (I-1) D
//   reduce-scatter to D bytes in all  (I-1) D     (D / ranks for each rank)
//   all-gather to D bytes             (I-1) D
//   broadcast of D bytes              (I-1) D
//   all-to-all, permute               every block between ranks of two islands, once
// and kHeaderBytes (wire.h) with each message: at most one for each pair of processes and step.
//
// Invariants:
//   OP-1  all processes send and receive the same messages, whatever they know otherwise: everything follows from layout, key and sizes
//   OP-2  no sum is written before all that is added up here has been read: the output of an all-reduce may be its input
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "plugins/pjrt_cpu/net/reductions.h"
#include "plugins/pjrt_cpu/net/wire.h"

namespace pw::pjrt_cpu {

enum class GroupOp { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kPermute, kBroadcast };

// What one device brings to an operation.
struct Contribution {
  std::vector<const char*> in;  // one, but for kAllToAll one for each rank
  std::vector<char*> out;
  size_t bytes = 0;           // of each of `in`; for kReduceScatter of `out`
  Reduction reduction;        // of the reducing ones
  std::optional<int> source;  // kPermute: whom it receives from; kBroadcast: the root
  std::vector<int> targets;   // kPermute: whom it sends to
};

// Which operation of which launch.
struct OperationKey {
  int64_t run = 0;
  int64_t op = 0;
  int kind = 0;
  GroupOp what = GroupOp::kAllReduce;
  friend bool operator==(const OperationKey& a, const OperationKey& b) {
    return a.run == b.run && a.op == b.op && a.kind == b.kind && a.what == b.what;
  }
};

// Who takes part: the same in all processes but for what says which of them this one is.
struct GroupLayout {
  struct Process {
    ProcessAddress address;
    std::vector<int> ranks;  // ascending
  };
  std::vector<Process> processes;         // in the order of their first rank; a process's place is its index here
  std::vector<std::vector<int>> islands;  // the places of each; empty: all are one island
  uint64_t name = 0;                      // of the group, the same in all its processes
  size_t ranks = 0;
  int mine = 0;                  // the place of this process
  std::vector<int> local_ranks;  // ascending
  std::vector<int> local_index;  // of a rank among local_ranks; -1: elsewhere
};

// Blocks until the operation is complete here. `seats`: what the devices of this process bring, in the order of their ranks.
absl::Status PerformOperation(Wire& wire, const GroupLayout& layout, const OperationKey& key, std::vector<Contribution>& seats);

}  // namespace pw::pjrt_cpu
