#include "pathways/bulk/line.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_code.h"

namespace pw::bulk {
namespace {

using pathways::v1::BulkFrame;
constexpr size_t kMostOfAPart = size_t{8} << 20;
// What is sent: it stays in the processor's caches from the socket to where it belongs (net/landings.h).
constexpr size_t kPart = size_t{1} << 20;

}  // namespace

net::Limits LineLimits() {
  net::Limits limits;
  limits.max_header_bytes = 64 << 10;
  limits.max_payload_bytes = kMostOfAPart;
  return limits;
}

// One lane for all: what ends a call must not overtake its data.
void Line::Send(const BulkFrame& frame) { connection_->Send(frame.SerializeAsString(), net::Lane::kBulk); }

void Line::SendDone(uint64_t call, const absl::Status& status) {
  BulkFrame frame;
  frame.set_call(call);
  frame.mutable_done()->set_code(static_cast<int>(status.code()));
  frame.mutable_done()->set_message(std::string(status.message()));
  Send(frame);
}

void Line::SendParts(uint64_t call, const Bytes& data, uint64_t offset) {
  BulkFrame frame;
  frame.set_call(call);
  for (size_t sent = 0; sent < data.size(); sent += kPart) {
    frame.mutable_part()->set_offset(offset + sent);
    connection_->Send(frame.SerializeAsString(), {data.Slice(sent, std::min(kPart, data.size() - sent))}, net::Lane::kBulk);
  }
}

absl::Status Line::Landed(uint64_t call, size_t size) {
  const size_t landed = landings_.Withdraw(call);
  if (landed == size) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a bulk line brought ", landed, " bytes of ", size));
}

std::string Line::Describe() const {
  const net::Counters counters = connection_->counters();
  return absl::StrCat(connection_->peer(), ": ", counters.bytes_received, " bytes in, ", counters.bytes_sent, " bytes out");
}

void Line::OnFrame(net::Frame frame) {
  BulkFrame parsed;
  if (!parsed.ParseFromString(frame.header) || parsed.kind_case() == BulkFrame::KIND_NOT_SET) {
    return connection_->Close(absl::InvalidArgumentError("a frame of a bulk line does not parse"));
  }
  if (!parsed.has_part()) return owner_->OnBulkFrame(std::move(parsed));
  landings_.Put(parsed.call(), parsed.part().offset(), frame.payload);
}

net::Place Line::PlaceFor(const std::string& header, size_t payload_bytes) {
  BulkFrame parsed;
  if (!parsed.ParseFromString(header) || !parsed.has_part()) return {};
  return landings_.Take(parsed.call(), parsed.part().offset(), payload_bytes);
}

absl::Status StatusOf(const BulkFrame::Done& done) { return StatusFrom(done.code(), done.message()); }

}  // namespace pw::bulk
