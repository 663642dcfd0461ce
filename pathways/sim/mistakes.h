// Mistakes: bugs of a controller or of a worker, as others meet them. The code under test stays as it is: one message of it, on its way, is changed
// into the one that the bug would have sent. Planted in runs (Bug, network.h) to prove that the referee's invariants notice each.
//
// Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "pathways/sim/network.h"

namespace pw::sim {

// Whether the bug is one of those here, and not of the transport.
bool IsMistake(Bug bug);

// The frame header (ToWorker or FromWorker) with the mistake in it. None where it has nothing that the bug could spoil.
std::optional<std::string> Mistaken(Bug bug, bool from_controller, absl::string_view header);

}  // namespace pw::sim
