// LaneCalls: calls of one client's programs to functions of its process, on the client's lane (proto/pathways/v1/lane.proto).
// ClientLanes has one for each client, and reports when the lane comes and goes.
//
// A call that has no lane waits for one. An answer is an error if its results do not have the sizes that the program expects. So
// answers take no more memory than the programs' results.
//
// Invariants:
//   LC-1  every call is completed exactly once: with the answer, or by Fail
//   LC-2  a call runs once in the client's process, however often the lane breaks
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/device/device.h"
#include "pathways/lanes/call_bytes.h"
#include "pathways/v1/lane.pb.h"

namespace pw::worker {

class LaneCalls {
 public:
  using Done = std::function<void(device::HostCallReply)>;

  // `number`: unique on this worker. `lane`: null while there is none.
  void Start(uint64_t number, const device::HostCallRequest& request, Done done, lanes::LaneEnd* lane);
  void OnTaken(uint64_t number) { operands_.Forget(number); }
  // INVALID_ARGUMENT: the client has broken the protocol.
  absl::Status OnAnswer(const ::pathways::v1::LaneAnswer& answer, const Bytes& payload, BlockCache& blocks, lanes::LaneEnd& lane);
  absl::Status OnBytes(const ::pathways::v1::LaneBytes& bytes, Bytes payload, lanes::LaneEnd& lane);

  void Pump(lanes::LaneEnd& lane) { operands_.Pump(lane); }
  void Resume(lanes::LaneEnd& lane) { operands_.Resume(lane); }
  void LaneGone() { operands_.LaneGone(); }
  // Fails all calls.
  void Fail(const absl::Status& status);

  size_t size() const { return calls_.size(); }

 private:
  struct Call {
    std::vector<uint64_t> result_bytes;
    Done done;
  };
  void SayTaken(uint64_t number, lanes::LaneEnd& lane);
  void Finish(uint64_t number, device::HostCallReply reply, lanes::LaneEnd& lane);

  std::map<uint64_t, Call> calls_;
  lanes::CallBytes operands_;  // sends operands, and receives results
};

}  // namespace pw::worker
