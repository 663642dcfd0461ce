// Tracing: records this host's activity when its configuration says so. The parts that hold the Core's recorder decide which events to
// record.
// Lives on the worker's strand.
#pragma once

#include "pathways/v1/housekeeping.pb.h"
#include "pathways/worker/store/core.h"

namespace pw::worker {

class Tracing {
 public:
  explicit Tracing(Core* core) : core_(core) {}

  // Begins a recording that is not yet known. An empty one discards the events recorded so far.
  void Record(const pathways::v1::HostConfig::Recording& recording);
  // Ends the recording and returns its events.
  pathways::v1::TraceReport End();
  // Records the arrival of a command. REQUIRES: the recorder is on.
  void Prepared(const pathways::v1::Command& command);

 private:
  Core* const core_;
  uint64_t recording_ = 0;
};

// Returns the trace track of a local device.
std::string DeviceTrack(int device);

}  // namespace pw::worker
