// LaneRoutes: what a session has to do with lanes, on which the bytes of its arrays travel past the controller
// (proto/pathways/v1/lane.proto): who may connect to which host, and which bytes go that way.
//
// On the controller's strand, as everything of a session. Errors and callbacks are as in session.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/bytes.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"

namespace pw::session {

struct LaneOffer {
  HostId host;
  std::string address;
  std::string key;
  std::string name;  // of the host, for people
};

// The client, as far as lanes go.
class LaneListener {
 public:
  virtual ~LaneListener() = default;
  // It may connect there. Comes before the host has anything for it.
  virtual void OnLane(const LaneOffer& lane) = 0;
  // The host is lost.
  virtual void OnLaneClosed(HostId host, const absl::Status& status) = 0;
  // A host buffer that went by lane (HostShard::by_lane) has reached its devices, or is not wanted any more.
  virtual void OnBufferDone(uint64_t buffer) = 0;
};

struct LaneFetch {
  uint64_t name = 0;   // how the worker calls the bytes
  uint64_t above = 0;  // arrays of at most so many bytes come in the answer
  std::optional<buffers::Dims> byte_strides;
};

struct FetchedArray {
  Bytes data;
  std::optional<HostId> on_lane_of;  // its bytes go there, and not through here
};

class LaneRoutes {
 public:
  virtual ~LaneRoutes() = default;
  virtual void SetListener(std::weak_ptr<LaneListener> listener) = 0;
  // As CopyToHostBuffer, but the bytes of a large array go on the lane of the host that has it.
  virtual void FetchByLane(uint64_t array, LaneFetch fetch, absl::AnyInvocable<void(absl::StatusOr<FetchedArray>) &&> done) = 0;
  // The client cannot connect to the host: what waits for its bytes there fails.
  virtual void OnLaneLost(HostId host, const absl::Status& status) = 0;
};

}  // namespace pw::session
