// Names of the dataflow. Plain values, as in base/ids.h. Who hands them out:
//   NodeId, EdgeId   positions in their graph
//   GraphId, RunId   the host that installed the graph or started the run (its coordinator), counting from 1; never reused
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

// The controller's place among the hosts of a dataflow. Workers are numbered from below.
inline constexpr HostId kControllerHost{UINT32_MAX};

// Something of which each coordinator numbers its own.
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
