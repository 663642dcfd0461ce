// Profiles: this host's part of a profile that a client or an operator takes: an XSpace (xspace.h) of the host's own recording and of the device
// runtime's. The host keeps it in memory until the controller has passed it on, piece by piece.
//
// Invariants:
//   PRF-1  at most one profile is recorded or kept; a new one replaces it
//   PRF-2  a profile of one session has no event of another. So it has none of the device runtime's events, which do not name a session
//   PRF-3  a kept profile has at most the bytes that were asked for, and never more than kMostBytes. A text names the events that did not fit
// Lives on the worker's strand. The runtime's events are converted on the pool, since that may take seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "pathways/base/threads/executor.h"
#include "pathways/device/device.h"
#include "pathways/trace/recorder.h"
#include "pathways/v1/housekeeping.pb.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

class Profiles {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  // `missing`: what the profile lacks, and why; empty if it is whole.
  using Made = std::function<void(uint64_t bytes, const std::string& missing)>;

  // All outlive this.
  Profiles(WorkerContext* context, device::DeviceRuntime* runtime, Executor* pool)
      : context_(context), runtime_(runtime), pool_(pool) {}

  // Starts the device runtime's recording, if the profile wants it. Call it when the host's own recording has begun.
  void Begin(const pathways::v1::HostConfig::Recording& recording);
  // Whether a profile has begun and not ended.
  bool recording() const { return recording_; }
  // Makes the XSpace. `made` runs once, maybe inside the call; never after the worker is gone. REQUIRES: recording().
  void End(const trace::Recording& own, const std::string& host, Made made);
  // Returns bytes of the profile; NOT_FOUND if it is not kept any more.
  absl::StatusOr<pathways::v1::ProfilePiece> Read(const pathways::v1::ProfilePart& part) const;
  // Frees the profile, unless it is of this recording.
  void Keep(uint64_t recording);

 private:
  void Finish(std::string own, const absl::StatusOr<std::string>& runtime, const Made& made);

  WorkerContext* const context_;
  device::DeviceRuntime* const runtime_;
  Executor* const pool_;
  bool recording_ = false;
  pathways::v1::HostConfig::Recording wanted_;  // its id is 0 if there is no profile
  std::unique_ptr<device::RuntimeProfile> runtime_profile_;
  absl::Status runtime_status_;  // why there is none
  std::string bytes_;
};

}  // namespace pw::worker
