// Frames: the wire format of messages between runtimes (proto/pathways/v1/dataflow.proto). FrameBuilder builds a frame;
// ParseFrame decodes one.
//
// Invariant FM-1: ParseFrame returns consistent contents (numbers of tuples, payload, ascending counts), or INVALID_ARGUMENT. The
// run checks whether they fit its graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/dataflow/graph/graph_part.h"
#include "pathways/dataflow/progress/edge_progress.h"
#include "pathways/dataflow/tuple.h"
#include "pathways/net/transport.h"
#include "pathways/v1/dataflow.pb.h"

namespace pw::dataflow {

struct TupleMessage {
  RunId run;
  EdgeId edge;
  uint64_t sequence = 0;
  uint32_t shard = 0;
  Tuple tuple;
};

struct ReportMessage {
  RunId run;
  EdgeId edge;
  Report report;
};

// In the messages below, the sender is the coordinator of graphs and runs that are named by a plain number.
struct InstallMessage {
  uint64_t graph = 0;
  std::shared_ptr<const GraphPart> part;  // the receiver's
  ProgressKnobs progress;
};

struct StartMessage {
  uint64_t run = 0;
  uint64_t graph = 0;
  uint64_t oldest_live = 0;
  std::string argument;
};

struct EndMessage {
  RunId run;
  absl::Status status;
};

struct BrokenMessage {
  HostId host;
  absl::Status status;
};

struct LostMessage {
  RunId run;
  HostId host;
  absl::Status status;
};

struct UninstallMessage {
  uint64_t graph = 0;
};

struct FrameContents {
  std::vector<TupleMessage> tuples;
  std::vector<ReportMessage> reports;
  std::vector<InstallMessage> installs;
  std::vector<StartMessage> starts;
  std::vector<BrokenMessage> broken;
  std::vector<LostMessage> lost;
  std::vector<EndMessage> ends;
  std::vector<uint64_t> uninstalls;
  uint64_t consumed_urgent = 0, consumed_bulk = 0;
  bool critical = false;
};

absl::StatusOr<FrameContents> ParseFrame(const net::Frame& frame);

// A frame under construction.
class FrameBuilder {
 public:
  void Add(const TupleMessage& message);
  void Add(const ReportMessage& message);
  void Add(const InstallMessage& message);
  void Add(const StartMessage& message);
  void Add(const BrokenMessage& message);
  void Add(const LostMessage& message);
  void Add(const EndMessage& message);
  void Add(const UninstallMessage& message);
  void SetConsumed(uint64_t urgent, uint64_t bulk);
  void SetCritical(bool critical) { proto_.set_critical(critical); }

  bool empty() const { return messages_ == 0; }
  size_t messages() const { return messages_; }
  size_t tuples() const { return tuples_; }
  // The approximate size on the wire and in memory.
  size_t bytes() const { return bytes_; }

  std::string SerializeHeader() const { return proto_.SerializeAsString(); }
  std::vector<Bytes> TakePayload() { return std::move(payload_); }

 private:
  ::pathways::v1::dataflow::Frame proto_;
  std::vector<Bytes> payload_;
  size_t messages_ = 0;
  size_t tuples_ = 0;
  size_t bytes_ = 0;
};

}  // namespace pw::dataflow
