// Lanes: the lines on which a trace viewer draws the spans of a track, such as a device's. Viewers show overlapping spans of one line as
// nested. So overlapping spans get lines ("lanes") of their own: each span takes the first lane of its track that is free when it begins.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pathways/trace/recorder.h"

namespace pw::trace {

struct Lanes {
  std::vector<size_t> order;  // the positions of the events in the recording, by the time at which they begin
  std::vector<size_t> lane;   // of each event of the recording, within its track; 0 is the first
};
// REQUIRES: the track of each event is one of the recording's. Pure.
Lanes LanesOf(const Recording& recording);

// Returns the name of a lane: "device 0", "device 0 (2)".
std::string LaneName(const std::string& track, size_t lane);

}  // namespace pw::trace
