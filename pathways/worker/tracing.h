// Answers the controller's Trace commands. What is recorded is up to the parts that hold the Core's recorder.
// Lives on the worker's strand.
#pragma once

#include "pathways/worker/core.h"

namespace pw::worker {

class Tracing {
 public:
  explicit Tracing(Core* core) : core_(core) {}

  void Trace(const pathways::v1::Trace& command);
  // A command has come. REQUIRES: the recorder is on.
  void Prepared(const pathways::v1::Command& command);

 private:
  Core* const core_;
};

// The line of the picture that belongs to a local device.
std::string DeviceTrack(int device);

}  // namespace pw::worker
