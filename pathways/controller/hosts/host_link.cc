#include "pathways/controller/hosts/host_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/controller/hosts/fabric.h"

namespace pw::controller {

HostLink::HostLink(LinkId id, std::unique_ptr<net::Connection> connection, PostToOwner post)
    : id_(id), post_(std::move(post)), connection_(std::move(connection)) {}

absl::StatusOr<std::vector<Bytes>> HostLink::Split(const ::pathways::v1::FromWorker& message, const Bytes& payload) {
  std::vector<Bytes> pieces;
  uint64_t offset = 0;
  for (const auto& event : message.events()) {
    PW_ASSIGN_OR_RETURN(const uint64_t size, PayloadBytes(event));
    if (size > payload.size() - offset) {
      return absl::InternalError(absl::StrCat("a frame announces more than its payload of ", payload.size(), " bytes"));
    }
    pieces.push_back(size == 0 ? Bytes() : payload.Slice(offset, size));
    offset += size;
  }
  if (offset == payload.size()) return pieces;
  return absl::InternalError(absl::StrCat("a frame has a payload of ", payload.size(), " bytes and announces ", offset));
}

void HostLink::OnFrame(net::Frame frame) {
  const bool first = std::exchange(first_frame_, false);
  ::pathways::v1::FromWorker message;
  if (message.ParseFromString(frame.header) && (message.events_size() > 0 || message.has_received())) {
    if (message.events_size() > 1 && is_stranger())
      return connection_->Close(absl::InvalidArgumentError("more than one event came before the peer was let in"));
    absl::StatusOr<std::vector<Bytes>> pieces = Split(message, frame.payload);
    if (!pieces.ok()) return connection_->Close(pieces.status());
    const size_t bytes = frame.header.size() + frame.payload.size();
    return post_([id = id_, message = std::move(message), pieces = *std::move(pieces), bytes](Owner& owner) mutable {
      owner.OnWorkerMessage(id, std::move(message), std::move(pieces), bytes);
    });
  }
  ::pathways::v1::FromRuntime runtime;
  if (runtime.ParseFromString(frame.header) && runtime.kind_case() != ::pathways::v1::FromRuntime::KIND_NOT_SET) {
    return post_(
        [id = id_, runtime = std::move(runtime)](Owner& owner) mutable { owner.OnRuntimeMessage(id, std::move(runtime)); });
  }
  ::pathways::v1::AdminRequest request;
  if (first && request.ParseFromString(frame.header) && request.kind_case() != ::pathways::v1::AdminRequest::KIND_NOT_SET) {
    return post_(
        [id = id_, request = std::move(request)](Owner& owner) mutable { owner.OnAdminRequest(id, std::move(request)); });
  }
  connection_->Close(
      absl::InvalidArgumentError("the frame is no message of a worker or its device runtime, and no operator's request: is the "
                                 "other end a pathways process?"));
}

absl::Status HostLink::Admit(size_t header_bytes, size_t payload_bytes) {
  if (is_stranger() && ++stranger_frames_ > kStrangerFrames)
    return absl::InvalidArgumentError(absl::StrCat("more than ", kStrangerFrames, " frames came before the peer was let in"));
  const size_t most = most_bytes_.load(std::memory_order_acquire);
  if (most == kUnlimited || (header_bytes <= most && payload_bytes == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a frame of ", header_bytes, " and ", payload_bytes, " bytes came ",
                                                 most == kRuntimeBytes ? "from a device runtime" : "before the peer was let in",
                                                 "; the limit is ", most));
}

void HostLink::OnClosed(const absl::Status& reason) {
  post_([id = id_, reason](Owner& owner) { owner.OnLinkClosed(id, reason); });
}

void HostLink::OnBulkWritable() {
  post_([id = id_](Owner& owner) { owner.OnLinkWritable(id); });
}

}  // namespace pw::controller
