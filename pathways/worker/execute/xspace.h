// Converts what a host has recorded to an XSpace (proto/xla/xplane.proto), which XProf and TensorBoard open.
//
// The planes of a host: one for each device, with its computations, and one for the host itself, with a line for each other track of the
// recording (transfers, Python functions, commands). The planes that the device runtime has recorded itself come beside them.
//
// An XSpace may stand alone in the file of its host, or be merged with those of other hosts and of the client's process. In the second case
// the names of all planes name the host, so that no two planes have one name.
//
// Times count from the start of the recording, as in every XSpace. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/trace/recorder.h"
#include "xla/xplane.pb.h"

namespace pw::worker {

struct XSpaceOptions {
  std::string host;
  uint64_t session = 0;  // the only session whose events are shown; 0: all events
  bool merged = false;   // it will be merged with the XSpaces of others
};

// Returns the planes of a host's own recording. A device without an event has no plane.
tensorflow::profiler::XSpace ToXSpace(const trace::Recording& recording, const XSpaceOptions& options);

// Parses the XSpace of a device runtime, names its planes and makes its times count from its start. INTERNAL if it is none.
absl::StatusOr<tensorflow::profiler::XSpace> RuntimeXSpace(const std::string& serialized, const XSpaceOptions& options);

}  // namespace pw::worker
