// ProgramReport: the loaded programs of many nodes as graphs, for the operators' page (docs/operators.md). Pure: ClusterImpl asks the sessions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "pathways/base/ids.h"
#include "pathways/program/program.h"

namespace pw::controller {

// A program's nodes and edges. A graph of more than kMostNodes nodes is cut: its last nodes are not shown.
struct ProgramGraph {
  static constexpr size_t kMostNodes = 200;

  struct Node {
    const char* kind = "";           // argument, compute, transfer, result, call, choice, function or route
    std::string name;                // of the computation or the function; empty: it has none
    std::string location;            // in the user's program
    size_t devices = 0;              // on which its values are
    std::vector<std::string> hosts;  // of these devices, each once
    std::vector<int> inputs;         // the nodes that make its inputs, ascending, each once
  };
  SessionId session;
  uint64_t id = 0;  // tells the programs of the cluster apart
  std::string name;
  size_t num_nodes = 0;
  std::vector<Node> nodes;
};

// `hosts_of` returns the names of the hosts of these devices, each once.
ProgramGraph GraphOf(const program::TypedProgram& program,
                     absl::FunctionRef<std::vector<std::string>(const std::vector<DeviceId>&)> hosts_of);

// {"programs": [{"client", "id", "name", "num_nodes", "nodes": [{"kind", "name", "at", "devices", "hosts", "inputs"}, ...]}, ...],
//  "more": the number of programs that are not listed}
std::string ToJson(const std::vector<ProgramGraph>& programs, size_t more);

}  // namespace pw::controller
