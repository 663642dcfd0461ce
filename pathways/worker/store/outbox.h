// Outbox: batches a worker's events for its controller. Events gather until the strand has run empty or a batch is large, then leave as one
// frame. Completions gather in one Done. In a large cluster, plain completions of commands that span many hosts gather separately, because
// they may leave by another path (report_path.h). HadCommands keeps all completions, for commands that are repeated.
//
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/transport.h"
#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/had_commands.h"

namespace pw::worker {

class Outbox {
 public:
  // Both must outlive this.
  Outbox(net::FrameSink* sink, HadCommands* had) : sink_(sink), had_(had) {}

  // Adds an event to the current batch, with its payload if any. The pointer is valid until the next call.
  pathways::v1::Event* Add(std::vector<Bytes> payload = {});
  // `device_microseconds`: how long the command kept devices busy, summed over them.
  void Done(uint64_t op, const absl::Status& status, double device_microseconds = 0);
  // Reports that these results of a run (perhaps none) failed with this status. Must precede the Done of the run's op.
  void Poisoned(uint64_t op, const absl::Status& status, const std::vector<uint32_t>& results);
  // Ops with this bit were assigned on this host: their completions go to `done`, not to the controller.
  static constexpr uint64_t kLocalOp = uint64_t{1} << 63;
  using Local = std::function<void(uint64_t op, const absl::Status& status, double device_microseconds)>;
  void SetLocal(Local done) { local_ = std::move(done); }
  // Called at each Flush with the completions that may leave by another path (worker.proto, Report). Takes all of them and returns true, or
  // none and returns false. May add to the outbox.
  using OtherWay = std::function<bool(pathways::v1::Done* done)>;
  // Null: no other path.
  void SetOtherWay(OtherWay way) { other_way_ = std::move(way); }
  // A Done that also reports how long the command took, for commands that ask for it.
  void DoneTimed(uint64_t op, double microseconds, double device_microseconds);
  // Reports again what was reported of the op, if anything was. The op has come again.
  void DoneAgain(uint64_t op);
  void Flush();

  // Sends one chunk of a fetch on the bulk lane, ahead of the batch.
  void SendChunk(uint64_t transfer, uint64_t offset, uint64_t total, Bytes piece);
  bool CanSendBulk() const { return sink_->CanSendBulk(); }

 private:
  static void AddOk(pathways::v1::Done* done, uint64_t op, double device_microseconds);
  void AddTimed(uint64_t op, double microseconds, double device_microseconds);
  void FlushJoint();

  net::FrameSink* const sink_;
  HadCommands* const had_;
  Local local_;
  pathways::v1::FromWorker batch_;
  pathways::v1::Done done_;
  OtherWay other_way_;
  pathways::v1::Done joint_;  // completions that may take the other path
  uint64_t poisoned_op_ = 0;  // the latest: its Done must follow its Poisoned
  std::vector<Bytes> payload_;
  size_t payload_bytes_ = 0;
};

pathways::v1::Status ToProto(const absl::Status& status);
absl::Status FromProto(const pathways::v1::Status& status);

}  // namespace pw::worker
