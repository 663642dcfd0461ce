// LaneRoutes: the part of a session that manages lanes. A lane (proto/pathways/v1/lane.proto) is a connection between a client
// and a host that carries the bytes of arrays and of host calls past the controller. LaneRoutes tells a LaneListener to which
// hosts the client may connect, and which bytes travel by lane. ServedSession, the listener, sends them to the client.
//
// Runs on the controller's strand, like the session. Errors and callbacks are as in session.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/buffers/array_spec.h"

namespace pw::session {

// Permission to connect to a host.
struct LaneOffer {
  HostId host;
  std::string address;
  std::string key;   // the client shows it to the host
  std::string name;  // of the host, for display
};

// A node of a program that calls a function of the client.
struct NodeCall {
  struct Operand {
    uint64_t array = 0;  // a handle, until the call has ended
    buffers::DType dtype = buffers::DType::kInvalid;
    buffers::Dims dims;
  };
  uint64_t callback = 0;
  std::vector<Operand> operands;
};

// A result of such a function: a host buffer of the client, which hosts request by lane.
struct LaneResult {
  uint64_t buffer = 0;  // 0: there are no bytes
  uint64_t bytes = 0;
};

struct SliceState;  // reports.h

// Receives the controller's messages to the client about lanes, and what else it tells of its own accord.
class LaneListener {
 public:
  virtual ~LaneListener() = default;
  // The client may connect to this host. Called once per host, before the first operation whose bytes travel on this lane.
  virtual void OnLane(const LaneOffer& lane) = 0;
  // The host is lost, and with it the bytes on its lane.
  virtual void OnLaneClosed(HostId host, const absl::Status& status) = 0;
  // A host buffer sent by lane (HostShard::by_lane) has reached all its devices, or no host waits for it any more. The client may free it.
  virtual void OnBufferDone(uint64_t buffer) = 0;
  // A slice of the client has moved to other physical devices.
  virtual void OnSliceMoved(const SliceState& slice) {}
  // Asks the client to fetch the operands, call its function and answer. `done` is called later.
  virtual void OnNodeCall(NodeCall call, absl::AnyInvocable<void(absl::StatusOr<std::vector<LaneResult>>) &&> done) = 0;
};

struct LaneFetch {
  uint64_t name = 0;                          // names the bytes on the lane: the number of the client's request
  uint64_t above = 0;                         // arrays of at most this many bytes come in the answer instead
  std::optional<buffers::Dims> byte_strides;  // layout of the bytes; none: dense, row-major
};

struct FetchedArray {
  Bytes data;
  std::optional<HostId> on_lane_of;  // set: the bytes travel on this host's lane and `data` is empty
};

class LaneRoutes {
 public:
  virtual ~LaneRoutes() = default;
  // Sets the listener. Without one, or once it is gone, the session has no lanes.
  virtual void SetListener(std::weak_ptr<LaneListener> listener) = 0;
  // Like CopyToHostBuffer, but the bytes of a large array travel on the lane of the host that holds it.
  virtual void FetchByLane(uint64_t array, LaneFetch fetch, absl::AnyInvocable<void(absl::StatusOr<FetchedArray>) &&> done) = 0;
  // The client cannot connect to the host: operations that wait for its bytes there fail.
  virtual void OnLaneLost(HostId host, const absl::Status& status) = 0;
};

}  // namespace pw::session
