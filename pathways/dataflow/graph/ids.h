// Ids of dataflow graphs and of their parts. Plain values: copied, compared, hashed.
//   NodeId, EdgeId   positions in their graph
//   GraphId, RunId   the coordinator (the host that installs the graph or starts the run) and a number, which the coordinator
//                    counts from 1. Never reused while the coordinator lives
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/ids.h"

namespace pw::dataflow {

struct NodeIdTag {
  static constexpr const char* kName = "node";
};
struct EdgeIdTag {
  static constexpr const char* kName = "edge";
};
using NodeId = Id<NodeIdTag, uint32_t>;
using EdgeId = Id<EdgeIdTag, uint32_t>;

// The controller's host id in a dataflow. Workers have lower numbers.
inline constexpr HostId kControllerHost{UINT32_MAX};

// A coordinator and the number that it gave: each coordinator counts its own graphs and its own runs.
template <class Tag>
struct Coordinated {
  HostId coordinator;
  uint64_t sequence = 0;

  friend constexpr auto operator<=>(const Coordinated&, const Coordinated&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Coordinated& id) {
    return H::combine(std::move(h), id.coordinator, id.sequence);
  }
};

template <class Tag>
std::string ToString(const Coordinated<Tag>& id) {
  return absl::StrCat(Tag::kName, " ", id.sequence, " of ",
                      id.coordinator == kControllerHost ? "the controller" : ToString(id.coordinator));
}

struct GraphIdTag {
  static constexpr const char* kName = "graph";
};
struct RunIdTag {
  static constexpr const char* kName = "run";
};
using GraphId = Coordinated<GraphIdTag>;
using RunId = Coordinated<RunIdTag>;

}  // namespace pw::dataflow
