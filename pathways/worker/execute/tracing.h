// Tracing: records this host's activity when its configuration says so, also for profiles (profiles.h). The parts of the worker decide which
// events to record.
// Lives on the worker's strand.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "pathways/trace/recorder.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/execute/profiles.h"

namespace pw::worker {

class Tracing {
 public:
  using Ended = std::function<void(const pathways::v1::EndedRecording&)>;

  // Both outlive this.
  Tracing(trace::Recorder* recorder, Profiles* profiles) : recorder_(recorder), profiles_(profiles) {}

  // Begins the recording of this configuration, if it is not yet known. If there is none, discards the events recorded so far, and all
  // profiles but the one that the configuration keeps.
  void Record(const pathways::v1::HostConfig& config);
  // Ends the recording. `ended` gets its events, maybe inside the call; never after the worker is gone.
  void End(const pathways::v1::EndRecording& how, Ended ended);
  // Records the arrival of a command. REQUIRES: the recorder is on.
  void Prepared(const pathways::v1::Command& command);

 private:
  static void Write(const trace::Recording& recording, pathways::v1::TraceReport* report);

  trace::Recorder* const recorder_;
  Profiles* const profiles_;
  uint64_t recording_ = 0;
  bool of_one_session_ = false;  // the recording is a profile that others' events must not enter
};

// Returns the trace track of a local device.
std::string DeviceTrack(int device);
bool IsDeviceTrack(absl::string_view track);

}  // namespace pw::worker
