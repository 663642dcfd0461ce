// The outbox: what a worker says to its controller, batched. Events gather until the strand has run empty or a batch is large,
// then leave as one frame. Completions gather in one Done; in a large cluster the plain ones of commands that many hosts have parts of
// gather apart, for they may leave by another way (report_path.h).
//
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "pathways/base/bytes.h"
#include "pathways/net/transport.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

class Outbox {
 public:
  // `connection` must outlive this.
  explicit Outbox(net::Connection* connection) : connection_(connection) {}

  // A new event in the current batch, whose payload (if any) is `payload`. Valid until the next call.
  pathways::v1::Event* Add(std::vector<Bytes> payload = {});
  // `device_microseconds`: how long it kept devices busy, summed over them.
  void Done(uint64_t op, const absl::Status& status, double device_microseconds = 0);
  // Before the Done of a run's op: some of its results, or none, failed with this.
  void Poisoned(uint64_t op, const absl::Status& status, const std::vector<uint32_t>& results);
  // Ops with this bit were given out on this host: their completions go to `done`, not to the controller.
  static constexpr uint64_t kLocalOp = uint64_t{1} << 63;
  using Local = std::function<void(uint64_t op, const absl::Status& status, double device_microseconds)>;
  void SetLocal(Local done) { local_ = std::move(done); }
  // Is offered at each Flush what has gathered of completions that may go another way (worker.proto, Report), and takes all of it, or
  // nothing: false. It may add to the outbox.
  using OtherWay = std::function<bool(pathways::v1::Done* done)>;
  // Null: there is none.
  void SetOtherWay(OtherWay way) { other_way_ = std::move(way); }
  // For those who asked how long it took, too.
  void DoneTimed(uint64_t op, double microseconds, double device_microseconds);
  void Flush();

  // One chunk of a fetch, past everything else, on the bulk lane.
  void SendChunk(uint64_t transfer, uint64_t offset, uint64_t total, Bytes piece);
  bool CanSendBulk() const { return connection_->CanSendBulk(); }

 private:
  static void AddOk(pathways::v1::Done* done, uint64_t op, double device_microseconds);
  void FlushJoint();

  net::Connection* const connection_;
  Local local_;
  pathways::v1::FromWorker batch_;
  pathways::v1::Done done_;
  OtherWay other_way_;
  pathways::v1::Done joint_;  // what may go that way
  uint64_t poisoned_op_ = 0;  // the latest: its Done stands behind what was said of it
  std::vector<Bytes> payload_;
  size_t payload_bytes_ = 0;
};

pathways::v1::Status ToProto(const absl::Status& status);
absl::Status FromProto(const pathways::v1::Status& status);

}  // namespace pw::worker
