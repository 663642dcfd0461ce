#include "pathways/net/framing.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"

namespace pw::net {
namespace {

constexpr uint8_t kMagic[4] = {'P', 'W', 'F', '1'};

uint64_t LoadLittle(const uint8_t* in, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= uint64_t{in[i]} << (8 * i);
  return value;
}

void StoreLittle(uint64_t value, int bytes, uint8_t* out) {
  for (int i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace

void EncodePrefix(FramePrefix prefix, uint8_t out[kPrefixBytes]) {
  std::memcpy(out, kMagic, sizeof(kMagic));
  StoreLittle(prefix.header_bytes, 4, out + 4);
  StoreLittle(prefix.payload_bytes, 8, out + 8);
}

absl::StatusOr<FramePrefix> DecodePrefix(const uint8_t in[kPrefixBytes], const Limits& limits) {
  if (std::memcmp(in, kMagic, sizeof(kMagic)) != 0) {
    return absl::InvalidArgumentError(
        "what arrived is not a frame of ours; is the address that of another service, or of another version of pathways?");
  }
  FramePrefix prefix;
  prefix.header_bytes = static_cast<uint32_t>(LoadLittle(in + 4, 4));
  prefix.payload_bytes = LoadLittle(in + 8, 8);
  PW_RETURN_IF_ERROR(CheckIncoming(prefix.header_bytes, prefix.payload_bytes, limits));
  return prefix;
}

absl::Status CheckIncoming(uint64_t header_bytes, uint64_t payload_bytes, const Limits& limits) {
  if (header_bytes > limits.max_header_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame announces a header of ", header_bytes, " bytes; the limit is ", limits.max_header_bytes));
  }
  if (payload_bytes > limits.max_payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a frame announces a payload of ", payload_bytes, " bytes; the limit is ", limits.max_payload_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckOutgoing(const std::string& peer, size_t header_bytes, size_t payload_bytes, const Limits& limits) {
  if (header_bytes <= limits.max_header_bytes && payload_bytes <= limits.max_payload_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("connection to ", peer, " was closed: a frame to be sent has a header of ",
                                                 header_bytes, " and a payload of ", payload_bytes, " bytes; the limits are ",
                                                 limits.max_header_bytes, " and ", limits.max_payload_bytes,
                                                 ", so send it in parts"));
}

FrameDecoder::FrameDecoder(const Limits& limits, size_t buffer_bytes, Placer placer, Admitter admitter)
    : limits_(limits),
      placer_(std::move(placer)),
      admitter_(std::move(admitter)),
      buffer_(std::max(buffer_bytes, kPrefixBytes)) {}

absl::Span<const iovec> FrameDecoder::Space() {
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  size_t count = 0;
  if (stage_ == Stage::kHeader) {
    space_[count++] = {frame_.header.data() + filled_, frame_.header.size() - filled_};
  } else if (stage_ == Stage::kPayload) {
    space_[count++] = {payload_.data + filled_, prefix_.payload_bytes - filled_};
  }
  space_[count++] = {buffer_.data() + end_, buffer_.size() - end_};
  return absl::MakeConstSpan(space_.data(), count);
}

void FrameDecoder::Commit(size_t n) {
  if (stage_ == Stage::kHeader) {
    const size_t direct = std::min(n, frame_.header.size() - filled_);
    filled_ += direct;
    n -= direct;
  } else if (stage_ == Stage::kPayload) {
    const size_t direct = std::min<size_t>(n, prefix_.payload_bytes - filled_);
    filled_ += direct;
    n -= direct;
  }
  end_ += n;
  PW_CHECK(end_ <= buffer_.size());
}

size_t FrameDecoder::TakeBuffered(uint8_t* out, size_t wanted) {
  const size_t n = std::min(wanted, buffered());
  if (n != 0) std::memcpy(out, buffer_.data() + begin_, n);
  begin_ += n;
  return n;
}

bool FrameDecoder::FillHeader() {
  auto* out = reinterpret_cast<uint8_t*>(frame_.header.data());
  filled_ += TakeBuffered(out + filled_, frame_.header.size() - filled_);
  return filled_ == frame_.header.size();
}

bool FrameDecoder::FillPayload() {
  filled_ += TakeBuffered(payload_.data + filled_, prefix_.payload_bytes - filled_);
  return filled_ == prefix_.payload_bytes;
}

absl::StatusOr<std::optional<Frame>> FrameDecoder::Fail(absl::Status error) {
  error_ = std::move(error);
  begin_ = end_ = 0;
  return error_;
}

absl::Status FrameDecoder::Begin(Stage stage) {
  const size_t size = stage == Stage::kHeader ? prefix_.header_bytes : prefix_.payload_bytes;
  const auto no_memory = [size] {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for the ", size, " bytes of an arriving frame"));
  };
  if (stage == Stage::kHeader) {
    frame_ = Frame();
    try {
      frame_.header.resize(size);
    } catch (const std::bad_alloc&) {
      return no_memory();
    }
  } else {
    payload_ = placer_ != nullptr ? placer_(frame_.header, size) : Place();
    if (payload_.data == nullptr) {
      std::optional<AlignedBytes> memory = TryAllocate(size);
      if (!memory.has_value()) return no_memory();
      payload_ = {memory->owner(), memory->data()};
    }
  }
  filled_ = 0;
  stage_ = stage;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Frame>> FrameDecoder::Pop() {
  if (!error_.ok()) return error_;
  if (stage_ == Stage::kPrefix) {
    if (buffered() < kPrefixBytes) return std::nullopt;
    absl::StatusOr<FramePrefix> prefix = DecodePrefix(buffer_.data() + begin_, limits_);
    if (!prefix.ok()) return Fail(prefix.status());
    if (absl::Status status = admitter_ == nullptr ? absl::OkStatus() : admitter_(prefix->header_bytes, prefix->payload_bytes);
        !status.ok())
      return Fail(std::move(status));
    prefix_ = *prefix;
    begin_ += kPrefixBytes;
    if (absl::Status status = Begin(Stage::kHeader); !status.ok()) return Fail(std::move(status));
  }
  if (stage_ == Stage::kHeader) {
    if (!FillHeader()) return std::nullopt;
    if (prefix_.payload_bytes != 0) {
      if (absl::Status status = Begin(Stage::kPayload); !status.ok()) return Fail(std::move(status));
    }
  }
  if (stage_ == Stage::kPayload) {
    if (!FillPayload()) return std::nullopt;
    frame_.payload = Bytes(std::move(payload_.owner), payload_.data, prefix_.payload_bytes);
    payload_ = Place();
  }
  stage_ = Stage::kPrefix;
  return std::optional<Frame>(std::move(frame_));
}

}  // namespace pw::net
