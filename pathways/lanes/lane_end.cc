#include "pathways/lanes/lane_end.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::lanes {

using ::pathways::v1::LaneMessage;

void LaneEnd::Open(std::shared_ptr<net::ReceiveBuffers> receive_buffers) {
  receive_buffers_ = std::move(receive_buffers);
  open_.store(true, std::memory_order_release);
}

void LaneEnd::Send(const LaneMessage& message, Bytes payload) {
  std::vector<Bytes> pieces;
  if (!payload.empty()) pieces.push_back(std::move(payload));
  connection_->Send(message.SerializeAsString(), std::move(pieces), net::Lane::kBulk);
}

void LaneEnd::ShareMemory(std::unique_ptr<net::FileSocket> files) {
  files_ = std::move(files);
  files_->Start(this);
}

bool LaneEnd::HandOver(LaneMessage message, const Bytes& data) {
  if (files_ == nullptr || data.size() < net::SharedMemoryFactory::kWorthwhileBytes) return false;
  const std::optional<net::SharedName> name = net::NameOf(data);
  if (!name.has_value()) return false;
  message.mutable_bytes()->set_file_offset(name->offset);
  message.mutable_bytes()->set_leased(name->leased);
  files_->Send(message.SerializeAsString(), name->fd, data.owner());
  return true;
}

void LaneEnd::OnFile(std::string header, net::Fd file) {
  LaneMessage message;
  if (!message.ParseFromString(header) || !message.has_bytes() || message.bytes().has_call() || message.bytes().offset() != 0)
    return connection_->Close(
        absl::InvalidArgumentError("a packet of a lane's memory socket does not name all bytes of an array"));
  const auto& bytes = message.bytes();
  absl::StatusOr<Bytes> memory =
      net::OpenPassed(std::move(file), {bytes.file_offset(), bytes.total_bytes(), bytes.leased()}, files_->same_user());
  if (!memory.ok()) return connection_->Close(memory.status());
  post_([id = id_, message = std::move(message), memory = *std::move(memory)](Owner& owner) mutable {
    owner.OnLaneMessage(id, std::move(message), std::move(memory));
  });
}

void LaneEnd::OnFilesClosed(const absl::Status& reason) { connection_->Close(reason); }

absl::Status LaneEnd::Admit(size_t header_bytes, size_t payload_bytes) {
  const bool open = open_.load(std::memory_order_acquire);
  const size_t most_header = open ? kHeaderBytes : kStrangerHeaderBytes, most_payload = open ? kPartBytes : 0;
  if (header_bytes <= most_header && payload_bytes <= most_payload) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a message of a lane announces a header of ", header_bytes, " and a payload of ",
                                                 payload_bytes, " bytes; ", open ? "" : "before the hello is answered ",
                                                 "the limits are ", most_header, " and ", most_payload));
}

net::Place LaneEnd::PlaceFor(const std::string& header, size_t payload_bytes) {
  LaneMessage message;
  if (!open_.load(std::memory_order_acquire) || !message.ParseFromString(header) || !message.has_bytes()) return {};
  if (message.bytes().has_call()) return {};  // few calls are large: their parts are copied to their place (receiver.h)
  return receive_buffers_->Take(NameOf(message.bytes()), message.bytes().offset(), payload_bytes);
}

void LaneEnd::OnFrame(net::Frame frame) {
  LaneMessage message;
  if (!message.ParseFromString(frame.header))
    return connection_->Close(absl::InvalidArgumentError("a message of a lane does not parse"));
  if (!frame.payload.empty() && !message.has_bytes() && !message.has_call() && !message.has_answer())
    return connection_->Close(absl::InvalidArgumentError("a message of a lane has a payload, and says nothing of it"));
  post_([id = id_, message = std::move(message), payload = std::move(frame.payload)](Owner& owner) mutable {
    owner.OnLaneMessage(id, std::move(message), std::move(payload));
  });
}

void LaneEnd::OnClosed(const absl::Status& reason) {
  post_([id = id_, reason](Owner& owner) { owner.OnLaneClosed(id, reason); });
}

void LaneEnd::OnBulkWritable() {
  post_([id = id_](Owner& owner) { owner.OnLaneWritable(id); });
}

}  // namespace pw::lanes
