// Tracing: records this host's activity when its configuration says so. The parts of the worker decide which events to record.
// Lives on the worker's strand.
#pragma once

#include <string>

#include "pathways/trace/recorder.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

class Tracing {
 public:
  // The recorder outlives this.
  explicit Tracing(trace::Recorder* recorder) : recorder_(recorder) {}

  // Begins a recording that is not yet known. An empty one discards the events recorded so far.
  void Record(const pathways::v1::HostConfig::Recording& recording);
  // Ends the recording and returns its events.
  pathways::v1::TraceReport End();
  // Records the arrival of a command. REQUIRES: the recorder is on.
  void Prepared(const pathways::v1::Command& command);

 private:
  trace::Recorder* const recorder_;
  uint64_t recording_ = 0;
};

// Returns the trace track of a local device.
std::string DeviceTrack(int device);

}  // namespace pw::worker
