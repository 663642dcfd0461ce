// Framing: the byte format of frames on a stream, and FrameDecoder, which splits incoming bytes into frames.
//
//   offset 0   4 bytes  "PWF1": magic and framing version
//          4   u32      header length   } little endian
//          8   u64      payload length  }
//         16   header bytes, then payload bytes
//
// FrameDecoder is pure: it owns memory, not sockets. The reader asks for Space, fills some of it, Commits the count, and Pops frames:
//
//   while (n = readv(fd, decoder.Space())) { decoder.Commit(n); while (frame = decoder.Pop()) deliver(frame); }
//
// Small frames pass through a buffer, so that one system call reads many of them. The rest of a payload that did not fit is read
// directly into its own memory. Not thread-safe.
//
// Invariants:
//   FR-1  the lengths in a prefix are checked against the limits before memory of that size is allocated
//   FR-2  after an error every later Pop returns the same error, and no frame
//   FR-3  a frame's payload starts on a 64-byte boundary in memory of its own, unless the placer supplied the memory
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/net/transport.h"

namespace pw::net {

inline constexpr size_t kPrefixBytes = 16;

struct FramePrefix {
  uint32_t header_bytes = 0;
  uint64_t payload_bytes = 0;
};

void EncodePrefix(FramePrefix prefix, uint8_t out[kPrefixBytes]);
// Returns INVALID_ARGUMENT if the magic is wrong or a length exceeds its limit.
absl::StatusOr<FramePrefix> DecodePrefix(const uint8_t in[kPrefixBytes], const Limits& limits);

// Returns INVALID_ARGUMENT if an incoming frame of these sizes exceeds the limits.
absl::Status CheckIncoming(uint64_t header_bytes, uint64_t payload_bytes, const Limits& limits);
// Returns INVALID_ARGUMENT if a frame of these sizes is too large to send to `peer`, which has the same limits.
absl::Status CheckOutgoing(const std::string& peer, size_t header_bytes, size_t payload_bytes, const Limits& limits);

class FrameDecoder {
 public:
  static constexpr size_t kDefaultBufferBytes = 64 << 10;

  // Called when a header is complete; see Connection::Handler::PlaceFor.
  using Placer = std::function<Place(const std::string& header, size_t payload_bytes)>;
  // Called when a prefix is complete and within the limits; see Connection::Handler::Admit.
  using Admitter = std::function<absl::Status(size_t header_bytes, size_t payload_bytes)>;

  explicit FrameDecoder(const Limits& limits, size_t buffer_bytes = kDefaultBufferBytes, Placer placer = nullptr,
                        Admitter admitter = nullptr);

  // Returns the memory for the next bytes of the stream; never empty. REQUIRES: Pop() has just returned nullopt.
  absl::Span<const iovec> Space();
  // Records that `n` bytes, in the order of Space(), have been filled.
  void Commit(size_t n);
  // Returns the next complete frame, or nullopt if none is complete yet.
  absl::StatusOr<std::optional<Frame>> Pop();

  // Returns true between frames: the stream may end here.
  bool AtBoundary() const { return stage_ == Stage::kPrefix && begin_ == end_; }

 private:
  enum class Stage { kPrefix, kHeader, kPayload };

  size_t buffered() const { return end_ - begin_; }
  absl::StatusOr<std::optional<Frame>> Fail(absl::Status error);
  absl::Status Begin(Stage stage);
  size_t TakeBuffered(uint8_t* out, size_t wanted);
  bool FillHeader();
  bool FillPayload();

  const Limits limits_;
  const Placer placer_;
  const Admitter admitter_;
  AlignedBytes buffer_;
  size_t begin_ = 0, end_ = 0;  // buffered bytes that are not decoded yet
  Stage stage_ = Stage::kPrefix;
  FramePrefix prefix_;
  Frame frame_;        // being received
  size_t filled_ = 0;  // bytes of the current header or payload
  Place payload_;
  std::array<iovec, 2> space_;
  absl::Status error_;
};

}  // namespace pw::net
