// HostCalls: calls from running programs to Python functions of their client.
//
// The device runtime hands over a call on one of its threads. The call travels on the client's lane (worker/lanes/lane_calls.h);
// the computation continues when the answer arrives. A client without lanes has its front end in the controller's process; its
// calls travel to the controller. Calls fail when their session ends or the controller is lost, so that no device waits forever.
//
// Invariants:
//   WC-1  every call is completed exactly once
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "pathways/device/device.h"
#include "pathways/worker/lanes/client_lanes.h"
#include "pathways/worker/store/context.h"

namespace pw::worker {

class HostCalls {
 public:
  // Takes over the runtime's host callbacks until it is destroyed.
  HostCalls(WorkerContext* context, device::DeviceRuntime* runtime, ClientLanes* lanes);
  ~HostCalls();

  // Calls a function of a session's client. REQUIRES: on the strand. `done` may run on any thread.
  void Call(const device::HostCallRequest& request, std::function<void(device::HostCallReply)> done);
  void Reply(const pathways::v1::HostReply& reply, const Bytes& payload);
  void ReleaseOwner(SessionId session);

 private:
  using DoneFn = std::function<void(device::HostCallReply)>;
  // Wraps `done`: the call becomes an event of the recording.
  DoneFn Recorded(const device::HostCallRequest& request, DoneFn done);
  struct Pending {
    SessionId session;
    DoneFn done;
  };
  WorkerContext* const context_;
  device::DeviceRuntime* const runtime_;
  ClientLanes* const lanes_;
  uint64_t next_call_ = 1;
  absl::flat_hash_map<uint64_t, Pending> pending_;
};

}  // namespace pw::worker
