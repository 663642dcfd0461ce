// Records what this host does, when its configuration says so. What is recorded is up to the parts that hold the Core's recorder.
// Lives on the worker's strand.
#pragma once

#include "pathways/v1/housekeeping.pb.h"
#include "pathways/worker/core.h"

namespace pw::worker {

class Tracing {
 public:
  explicit Tracing(Core* core) : core_(core) {}

  // A recording that it has not heard of begins; none: what is being recorded is forgotten.
  void Record(const pathways::v1::HostConfig::Recording& recording);
  // The end of the recording, and what it has.
  pathways::v1::TraceReport End();
  // A command has come. REQUIRES: the recorder is on.
  void Prepared(const pathways::v1::Command& command);

 private:
  Core* const core_;
  uint64_t recording_ = 0;
};

// The line of the picture that belongs to a local device.
std::string DeviceTrack(int device);

}  // namespace pw::worker
