// PerformOperation: performs one collective operation between several processes. It runs once the devices of this process have
// gathered; one thread performs it for all of them.
//
// A process sends at most one message to each other process in a step. So the number of messages between processes does not
// depend on their numbers of devices.
//
// Sums. A small all-reduce sends every device's contribution, and each process sums them in rank order: the same bits as in one
// process. A large one is summed inside each process first, and cut into one part for each process, which reduces it. Then every
// process sends and receives 2 (P-1)/P of the data, which is the minimum; sums associate by process.
//
// Islands. If the processes belong to several islands, data crosses between islands once. Sums are reduced inside each island
// first and cut over its processes. Each process exchanges its part with the owners of that part in the other islands, then
// distributes the result in its island. Gathered or broadcast data crosses to one process of each island, which passes it on.
// Processes of a smaller island have several parts each. In other operations every block has one receiver, so there is nothing to
// save. The traffic between I islands, summed over all processes:
//   - all-reduce of D bytes:             2 (I-1) D
//   - reduce-scatter to D bytes in all:  (I-1) D     (D / ranks for each rank)
//   - all-gather to D bytes:             (I-1) D
//   - broadcast of D bytes:              (I-1) D
//   - all-to-all, permute:               every block between ranks of two islands, once
// Each message adds kHeaderBytes (wire.h); each pair of processes exchanges at most one in a step.
//
// Invariants:
//   OE-1  all processes derive the same messages from layout, key and sizes alone
//   OE-2  no sum is written before all its inputs in this process are read: the output of an all-reduce may be its input
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "plugins/pjrt_cpu/net/reductions.h"
#include "plugins/pjrt_cpu/net/wire.h"

namespace pw::pjrt_cpu {

enum class GroupOp { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kPermute, kBroadcast };

// A device's part in an operation.
struct Contribution {
  std::vector<const char*> in;  // one; for kAllToAll, one for each rank
  std::vector<char*> out;
  size_t bytes = 0;           // of each of `in`; for kReduceScatter of `out`
  Reduction reduction;        // for operations that reduce
  std::optional<int> source;  // kPermute: rank to receive from; kBroadcast: the root
  std::vector<int> targets;   // kPermute: ranks to send to
};

// Identifies an operation by its launch and its place in the launch.
struct OperationKey {
  int64_t run = 0;
  int64_t op = 0;
  int kind = 0;
  GroupOp what = GroupOp::kAllReduce;
  friend bool operator==(const OperationKey& a, const OperationKey& b) {
    return a.run == b.run && a.op == b.op && a.kind == b.kind && a.what == b.what;
  }
};

// The participants. Equal in all processes, except for the fields about this process.
struct GroupLayout {
  struct Process {
    ProcessAddress address;
    std::vector<int> ranks;  // ascending
  };
  std::vector<Process> processes;         // ordered by first rank; a process's place is its index here
  std::vector<std::vector<int>> islands;  // the places in each island; empty: a single island
  uint64_t name = 0;                      // the group's name, the same in all its processes
  size_t ranks = 0;
  int mine = 0;                  // the place of this process
  std::vector<int> local_ranks;  // ascending
  std::vector<int> local_index;  // index of each rank in local_ranks; -1: elsewhere
};

// Blocks until the operation is complete here. `seats`: the contributions of this process's devices, by rank.
absl::Status PerformOperation(Wire& wire, const GroupLayout& layout, const OperationKey& key, std::vector<Contribution>& seats);

}  // namespace pw::pjrt_cpu
