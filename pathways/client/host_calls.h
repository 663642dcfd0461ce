// HostCalls: the calls that the programs on one host make to functions of this process, on the lane to that host
// (proto/pathways/v1/lane.proto). Lanes has one HostCalls for each host, and tells it when the lane opens and breaks.
//
// A call goes to the handler when its operands are complete. The handler's result, or its error, is sent as the answer, on the
// lane that exists then.
//
// Invariants:
//   KH-1  each call that arrives is handed over once, however often the lane breaks
//   KH-2  an answer is kept until the host has it
// Strand-confined. Callbacks of the handler hold it weakly.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/memory/block_cache.h"
#include "pathways/lanes/call_bytes.h"
#include "pathways/session/session.h"
#include "pathways/v1/lane.pb.h"

namespace pw::client {

class HostCalls : public std::enable_shared_from_this<HostCalls> {
 public:
  // Null: calls fail. May be called inside OnCall and OnBytes.
  using Handler = std::shared_ptr<session::HostCallHandler>;

  // INVALID_ARGUMENT: the host has broken the protocol.
  absl::Status OnCall(const ::pathways::v1::LaneCall& call, const Bytes& payload, const Handler& handler, BlockCache& blocks);
  absl::Status OnBytes(const ::pathways::v1::LaneBytes& bytes, Bytes payload, const Handler& handler);
  // The host has the answer.
  void OnTaken(uint64_t call);

  // The host has welcomed this client on the lane, which stays until LaneGone.
  void LaneOpened(lanes::LaneEnd* lane);
  void LaneGone();
  void Pump() { answers_.Pump(*lane_); }

  size_t size() const { return calls_.size(); }

 private:
  struct Call {
    ::pathways::v1::LaneCall message;
    bool arrived = false;  // with all operands
  };
  void Run(uint64_t number, const Bytes& operands, const Handler& handler);
  void Answer(uint64_t number, const absl::StatusOr<std::vector<Bytes>>& results);

  lanes::LaneEnd* lane_ = nullptr;
  std::map<uint64_t, Call> calls_;  // the host does not have their answers
  lanes::CallBytes answers_;        // outgoing answers, and incoming operands
};

}  // namespace pw::client
