// Mistakes: simulates bugs of a controller or worker as other processes see them. The code under test is unchanged: one message in transit
// is changed into the one that the bug would send. Runs plant them (Bug, network.h) to prove that the referee's invariants detect each.
//
// Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "pathways/sim/network.h"

namespace pw::sim {

// Returns whether the bug is one of these, not one of the transport.
bool IsMistake(Bug bug);

// The way of a frame, and with it its message: ToWorker, FromWorker, or the ControllerFrame of a session.
enum class Way { kToWorker, kFromWorker, kToClient };

// Returns the frame header with the mistake applied; nullopt if the bug does not apply to this header.
std::optional<std::string> Mistaken(Bug bug, Way way, absl::string_view header);

}  // namespace pw::sim
