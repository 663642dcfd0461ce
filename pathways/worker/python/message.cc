#include "pathways/worker/python/message.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_code.h"
#include "pathways/base/status_macros.h"
#include "pathways/json/json.h"
#include "pathways/net/prefault_pages.h"
#include "pathways/net/sockets/file_socket.h"

namespace pw::worker {
namespace {

constexpr size_t kPrefix = 4;
constexpr uint64_t kMostMessageBytes = uint64_t{1} << 46;
constexpr double kMostSeconds = 1e9;

constexpr size_t Align(size_t offset) { return (offset + 63) / 64 * 64; }

// Returns the length and the header of a message, which precede its parts.
std::string Head(std::string json, absl::Span<const int64_t> sizes) {
  absl::StrAppend(&json, ",\"bytes\":[", absl::StrJoin(sizes, ","), "]}");
  std::string head(kPrefix, '\0');
  for (size_t i = 0; i < kPrefix; ++i) head[i] = static_cast<char>(json.size() >> (8 * i));
  return head + json;
}

absl::StatusOr<uint64_t> Number(const JsonObject& header, const char* name) {
  const JsonValue* field = FindField(header, name);
  const std::optional<uint64_t> number = field == nullptr ? std::nullopt : CountOf(*field);
  if (!number.has_value()) return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be a whole number, not negative"));
  return *number;
}

absl::Status FillParts(const JsonObject& header, const Bytes& message, size_t offset, std::vector<Bytes>* parts) {
  PW_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, NumbersField(header, "bytes"));
  for (int64_t size : sizes) {
    offset = Align(offset);
    if (size < 0 || offset > message.size() || static_cast<uint64_t>(size) > message.size() - offset)
      return absl::InvalidArgumentError("a message is shorter than its parts");
    parts->push_back(message.Slice(offset, static_cast<size_t>(size)));
    offset += static_cast<size_t>(size);
  }
  return absl::OkStatus();
}

absl::StatusOr<PythonMessage> ReadMessage(const Bytes& message) {
  if (message.size() < kPrefix) return absl::InvalidArgumentError("a message has no header");
  size_t length = 0;
  for (size_t i = 0; i < kPrefix; ++i) length |= size_t{message.data()[i]} << (8 * i);
  if (length > message.size() - kPrefix) return absl::InvalidArgumentError("a message is shorter than its header");
  const std::string_view text = message.view().substr(kPrefix, length);
  PW_ASSIGN_OR_RETURN(const JsonObject header, ParseJson(absl::string_view(text.data(), text.size())));
  PythonMessage read;
  const bool loaded = header.fields().contains("loaded");
  read.kind = loaded ? PythonMessage::Kind::kLoaded : PythonMessage::Kind::kDone;
  PW_ASSIGN_OR_RETURN(read.number, Number(header, loaded ? "loaded" : "done"));
  if (header.fields().contains("code")) {
    PW_ASSIGN_OR_RETURN(const uint64_t code, Number(header, "code"));
    PW_ASSIGN_OR_RETURN(const std::string why, StringField(header, "message"));
    if (code == 0 || code > 16) return absl::InvalidArgumentError("a failure has no code");
    read.status = StatusFrom(static_cast<int>(code), why);
    return read;
  }
  if (!loaded) {
    PW_RETURN_IF_ERROR(FillParts(header, message, kPrefix + length, &read.parts));
  } else if (const JsonValue* seconds = FindField(header, "seconds"); seconds != nullptr) {
    read.seconds = seconds->number_value();
    if (!(read.seconds > 0 && read.seconds <= kMostSeconds)) return absl::InvalidArgumentError("'seconds' is no limit of time");
  }
  return read;
}

}  // namespace

absl::StatusOr<OutgoingMessage> OutgoingMessage::Create(const std::string& json, absl::Span<const int64_t> sizes,
                                                        net::SharedMemoryFactory* memory) {
  const std::string head = Head(json, sizes);
  OutgoingMessage message;
  size_t end = head.size();
  for (int64_t size : sizes) {
    message.offsets_.push_back(Align(end));
    end = message.offsets_.back() + static_cast<size_t>(size);
  }
  message.packet_ = std::make_shared<std::string>();
  if (end < net::FileSocket::kMostHeaderBytes) {
    *message.packet_ = "M" + head;
    message.packet_->resize(1 + end);
    message.data_ = reinterpret_cast<uint8_t*>(message.packet_->data()) + 1;
    message.owner_ = message.packet_;
    return message;
  }
  PW_ASSIGN_OR_RETURN(net::SharedMemory shared, memory->Create(end));
  message.data_ = shared.data();
  std::memcpy(message.data_, head.data(), head.size());
  *message.packet_ = absl::StrCat("F", end);
  message.file_ = std::move(shared).Freeze();
  message.owner_ = message.file_.owner();
  return message;
}

absl::StatusOr<PythonMessage> ReadPacket(std::string packet, net::Fd file) {
  if (packet.empty()) return absl::InvalidArgumentError("a packet is empty");
  if (packet.front() == 'M' && !file.valid()) {
    const Bytes bytes = Bytes::Copy(std::string_view(packet).substr(1));  // on a boundary, for the device runtime
    return ReadMessage(bytes);
  }
  uint64_t size = 0;
  const bool leased = packet.front() == 'L';
  if ((packet.front() != 'F' && !leased) || !file.valid() || !absl::SimpleAtoi(absl::string_view(packet).substr(1), &size) ||
      size > kMostMessageBytes)
    return absl::InvalidArgumentError("a packet is neither a message nor a file");
  PW_ASSIGN_OR_RETURN(const Bytes bytes, net::OpenPassed(std::move(file), {0, size, leased}, false));
  net::PrefaultForReading(bytes.data(), bytes.size());  // here, and not in the computation that reads them
  return ReadMessage(bytes);
}

}  // namespace pw::worker
