#include "pathways/net/sockets/send_queue.h"

#include <limits.h>

#include <algorithm>
#include <utility>

#include "pathways/net/framing.h"

namespace pw::net {
namespace {

// Up to this size, copying is cheaper than one more entry in the system call.
constexpr size_t kCopyBytes = 256;
// Room for every prefix and a small header or piece of each frame. Pieces that do not fit are referenced.
constexpr size_t kStagingBytes = 64 << 10;
constexpr size_t kMaxPieces = IOV_MAX;

static_assert(SendQueue::kBatchFrames * kPrefixBytes <= kStagingBytes, "every prefix of a batch has to fit");

}  // namespace

void SendQueue::Push(OutFrame frame) { (frame.lane == Lane::kUrgent ? urgent_ : bulk_).push_back(std::move(frame)); }

void SendQueue::Take(std::vector<OutFrame>* out) {
  size_t bytes = 0;
  for (std::deque<OutFrame>* lane : {&urgent_, &bulk_}) {
    while (!lane->empty() && bytes < kBatchBytes && out->size() < kBatchFrames) {
      bytes += kPrefixBytes + lane->front().size();
      out->push_back(std::move(lane->front()));
      lane->pop_front();
    }
  }
}

WriteBatch::WriteBatch() { staging_.reserve(kStagingBytes); }

void WriteBatch::AddPiece(const void* data, size_t size) {
  if (size == 0) return;
  pieces_.push_back({const_cast<void*>(data), size});  // sendmsg does not write through it
}

void WriteBatch::AddCopied(const void* data, size_t size) {
  if (size == 0) return;
  char* const at = staging_.data() + staging_.size();
  staging_.append(static_cast<const char*>(data), size);
  if (!pieces_.empty() && static_cast<char*>(pieces_.back().iov_base) + pieces_.back().iov_len == at) {
    pieces_.back().iov_len += size;  // consecutive copies leave as one piece
  } else {
    pieces_.push_back({at, size});
  }
}

void WriteBatch::AddFrame(const OutFrame& frame) {
  uint8_t prefix[kPrefixBytes];
  EncodePrefix({static_cast<uint32_t>(frame.header.size()), frame.payload_bytes}, prefix);
  AddCopied(prefix, kPrefixBytes);
  auto add = [this](const void* data, size_t size) {
    // Reserve room for the prefixes of later frames.
    const size_t room = kStagingBytes - SendQueue::kBatchFrames * kPrefixBytes;
    if (size <= kCopyBytes && staging_.size() + size <= room) {
      AddCopied(data, size);
    } else {
      AddPiece(data, size);
    }
  };
  add(frame.header.data(), frame.header.size());
  for (const Bytes& piece : frame.payload) add(piece.data(), piece.size());
}

void WriteBatch::Load(std::vector<OutFrame> frames) {
  frames_ = std::move(frames);
  for (const OutFrame& frame : frames_) {
    AddFrame(frame);
    if (frame.lane == Lane::kBulk) bulk_bytes_ += frame.size();
  }
}

absl::Span<iovec> WriteBatch::Pending() {
  return absl::MakeSpan(pieces_.data() + next_, std::min(pieces_.size() - next_, kMaxPieces));
}

void WriteBatch::Advance(size_t written) {
  while (written != 0) {
    iovec& piece = pieces_[next_];
    if (written < piece.iov_len) {
      piece.iov_base = static_cast<char*>(piece.iov_base) + written;
      piece.iov_len -= written;
      return;
    }
    written -= piece.iov_len;
    ++next_;
  }
}

std::vector<OutFrame> WriteBatch::Clear() {
  frames_.clear();
  staging_.clear();
  pieces_.clear();
  next_ = 0;
  bulk_bytes_ = 0;
  return std::exchange(frames_, {});
}

}  // namespace pw::net
