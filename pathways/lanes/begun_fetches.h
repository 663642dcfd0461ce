// The fetches that are under way when a client reconnects a lane (LaneHello.begun).
#pragma once

#include <cstdint>
#include <vector>

#include "pathways/v1/lane.pb.h"

namespace pw::lanes {

struct BegunFetch {
  uint64_t name = 0;
  uint64_t received = 0;  // bytes
};

// Lists fetches in the hello, as many as a stranger's header may hold (kStrangerHeaderBytes): those of which most has arrived.
// Returns the others, which begin anew.
std::vector<BegunFetch> ListBegun(std::vector<BegunFetch> fetches, ::pathways::v1::LaneHello* hello);

}  // namespace pw::lanes
