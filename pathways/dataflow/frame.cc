#include "pathways/dataflow/frame.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_code.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/unreachable_host.h"

namespace pw::dataflow {
namespace {
namespace wire = ::pathways::v1::dataflow;

// The approximate overhead of a message beside its bytes.
constexpr size_t kMessageOverhead = 32;

void ToProto(const absl::Status& status, ::pathways::v1::Status* proto) {
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(std::string(status.message()));
  if (const std::optional<HostId> host = UnreachableHost(status)) proto->set_unreachable_host(host->v);
}

// Returns an error even if the peer's code says OK.
absl::Status ErrorFrom(const ::pathways::v1::Status& proto) {
  absl::Status status = StatusFrom(proto.code(), proto.message());
  if (status.ok()) return absl::UnknownError(proto.message());
  return proto.has_unreachable_host() ? WithUnreachableHost(std::move(status), HostId(proto.unreachable_host())) : status;
}

void ToProto(RunId run, wire::Run* proto) {
  proto->set_coordinator(run.coordinator.v);
  proto->set_sequence(run.sequence);
}

RunId RunFrom(const wire::Run& proto) { return {HostId(proto.coordinator()), proto.sequence()}; }

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a dataflow frame is malformed: ", what));
}

absl::Status ParseTuples(const wire::Tuples& proto, const Bytes& payload, uint64_t* offset, std::vector<TupleMessage>* out) {
  if (proto.shards_size() != proto.bytes_size()) return Malformed("tuples without their sizes");
  const size_t first = out->size();
  for (int i = 0; i < proto.shards_size(); ++i) {
    const uint64_t bytes = proto.bytes(i);
    if (bytes > payload.size() - *offset) return Malformed("tuples announce more bytes than the payload has");
    TupleMessage message{RunFrom(proto.run()), EdgeId(proto.edge()), proto.first_sequence() + i, proto.shards(i), {}};
    if (bytes > 0) message.tuple.data = payload.Slice(*offset, bytes);
    *offset += bytes;
    out->push_back(std::move(message));
  }
  for (const auto& failed : proto.failed()) {
    if (failed.position() >= static_cast<uint64_t>(proto.shards_size())) return Malformed("an error without its tuple");
    (*out)[first + failed.position()].tuple.error = ErrorFrom(failed.status());
  }
  return absl::OkStatus();
}

absl::StatusOr<ReportMessage> ParseReport(const wire::Report& proto) {
  ReportMessage message{RunFrom(proto.run()), EdgeId(proto.edge()), {}};
  switch (proto.way()) {
    case wire::Report::DIRECT:
      message.report.way = Report::Way::kDirect;
      break;
    case wire::Report::UP:
      message.report.way = Report::Way::kUp;
      break;
    case wire::Report::DOWN:
      message.report.way = Report::Way::kDown;
      break;
    default:
      return Malformed("a report of unknown way");
  }
  if (proto.firsts_size() != proto.lengths_size() || proto.firsts_size() != proto.messages_size())
    return Malformed("a report whose counts are incomplete");
  std::vector<Counts::Stretch> stretches;
  stretches.reserve(proto.firsts_size());
  for (int i = 0; i < proto.firsts_size(); ++i) stretches.push_back({proto.firsts(i), proto.lengths(i), proto.messages(i)});
  PW_RETURN_IF_ERROR(Counts::Check(stretches, Placement::kMaxShards));
  for (const Counts::Stretch& stretch : stretches) message.report.counts.Append(stretch);
  for (const auto& poison : proto.poisons())
    message.report.poisons.push_back({poison.source_shard(), ErrorFrom(poison.status())});
  return message;
}

}  // namespace

absl::StatusOr<FrameContents> ParseFrame(const net::Frame& frame) {
  wire::Frame proto;
  if (!proto.ParseFromString(frame.header)) return Malformed("its header does not parse");
  FrameContents contents;
  uint64_t offset = 0;
  for (const auto& tuples : proto.tuples()) PW_RETURN_IF_ERROR(ParseTuples(tuples, frame.payload, &offset, &contents.tuples));
  if (offset != frame.payload.size()) return Malformed("bytes of its payload belong to no tuple");
  for (const auto& report : proto.reports()) {
    PW_ASSIGN_OR_RETURN(ReportMessage message, ParseReport(report));
    contents.reports.push_back(std::move(message));
  }
  for (const auto& install : proto.installs()) {
    PW_ASSIGN_OR_RETURN(std::shared_ptr<const GraphPart> part, FromProto(install.part()));
    ProgressKnobs knobs;
    if (install.fan_in() != 0) knobs.fan_in = install.fan_in();
    if (install.direct_pairs() != 0) knobs.direct_pairs = install.direct_pairs();
    contents.installs.push_back({install.graph(), std::move(part), knobs});
  }
  for (const auto& start : proto.starts())
    contents.starts.push_back({start.run(), start.graph(), start.oldest_live(), start.argument()});
  for (const auto& broken : proto.broken()) contents.broken.push_back({HostId(broken.host()), ErrorFrom(broken.status())});
  for (const auto& lost : proto.lost())
    contents.lost.push_back({RunFrom(lost.run()), HostId(lost.host()), ErrorFrom(lost.status())});
  for (const auto& end : proto.ends()) contents.ends.push_back({RunFrom(end.run()), ErrorFrom(end.status())});
  contents.uninstalls.assign(proto.uninstalls().begin(), proto.uninstalls().end());
  contents.consumed_urgent = proto.consumed_urgent();
  contents.consumed_bulk = proto.consumed_bulk();
  contents.critical = proto.critical();
  return contents;
}

void FrameBuilder::Add(const TupleMessage& message) {
  auto* tuples = proto_.tuples_size() == 0 ? nullptr : proto_.mutable_tuples(proto_.tuples_size() - 1);
  const bool follows = tuples != nullptr && RunFrom(tuples->run()) == message.run && tuples->edge() == message.edge.v &&
                       tuples->first_sequence() + tuples->shards_size() == message.sequence;
  if (!follows) {
    tuples = proto_.add_tuples();
    ToProto(message.run, tuples->mutable_run());
    tuples->set_edge(message.edge.v);
    tuples->set_first_sequence(message.sequence);
  }
  if (!message.tuple.error.ok()) {
    auto* failed = tuples->add_failed();
    failed->set_position(static_cast<uint32_t>(tuples->shards_size()));
    ToProto(message.tuple.error, failed->mutable_status());
    bytes_ += message.tuple.error.message().size();
  }
  tuples->add_shards(message.shard);
  tuples->add_bytes(message.tuple.size());
  if (message.tuple.size() > 0) payload_.push_back(message.tuple.data);
  ++messages_;
  ++tuples_;
  bytes_ += message.tuple.size() + kMessageOverhead;
}

void FrameBuilder::Add(const ReportMessage& message) {
  auto* report = proto_.add_reports();
  ToProto(message.run, report->mutable_run());
  report->set_edge(message.edge.v);
  report->set_way(static_cast<wire::Report::Way>(message.report.way));
  for (const Counts::Stretch& stretch : message.report.counts.stretches()) {
    report->add_firsts(stretch.first);
    report->add_lengths(stretch.length);
    report->add_messages(stretch.messages);
  }
  for (const Poison& poison : message.report.poisons) {
    auto* p = report->add_poisons();
    p->set_source_shard(poison.source_shard);
    ToProto(poison.status, p->mutable_status());
  }
  ++messages_;
  bytes_ += kMessageOverhead + message.report.counts.stretches().size() * 8 + message.report.poisons.size() * kMessageOverhead;
}

void FrameBuilder::Add(const InstallMessage& message) {
  auto* install = proto_.add_installs();
  install->set_graph(message.graph);
  *install->mutable_part() = ToProto(*message.part);
  install->set_fan_in(message.progress.fan_in);
  install->set_direct_pairs(message.progress.direct_pairs);
  ++messages_;
  bytes_ += install->ByteSizeLong();
}

void FrameBuilder::Add(const StartMessage& message) {
  auto* start = proto_.add_starts();
  start->set_run(message.run);
  start->set_graph(message.graph);
  start->set_oldest_live(message.oldest_live);
  start->set_argument(message.argument);
  ++messages_;
  bytes_ += kMessageOverhead + message.argument.size();
}

void FrameBuilder::Add(const BrokenMessage& message) {
  auto* broken = proto_.add_broken();
  broken->set_host(message.host.v);
  ToProto(message.status, broken->mutable_status());
  ++messages_;
  bytes_ += kMessageOverhead + message.status.message().size();
}

void FrameBuilder::Add(const LostMessage& message) {
  auto* lost = proto_.add_lost();
  ToProto(message.run, lost->mutable_run());
  lost->set_host(message.host.v);
  ToProto(message.status, lost->mutable_status());
  ++messages_;
  bytes_ += kMessageOverhead + message.status.message().size();
}

void FrameBuilder::Add(const EndMessage& message) {
  auto* end = proto_.add_ends();
  ToProto(message.run, end->mutable_run());
  ToProto(message.status, end->mutable_status());
  ++messages_;
  bytes_ += kMessageOverhead + message.status.message().size();
}

void FrameBuilder::Add(const UninstallMessage& message) {
  proto_.add_uninstalls(message.graph);
  ++messages_;
  bytes_ += kMessageOverhead;
}

void FrameBuilder::SetConsumed(uint64_t urgent, uint64_t bulk) {
  proto_.set_consumed_urgent(urgent);
  proto_.set_consumed_bulk(bulk);
}

}  // namespace pw::dataflow
