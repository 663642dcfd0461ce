#include "pathways/lanes/call_bytes.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/memory/try_allocate.h"

namespace pw::lanes {
namespace {

absl::Status NoMemory(size_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("there is no memory for ", bytes, " bytes of a host call"));
}

}  // namespace

void CallBytes::Send(uint64_t call, ::pathways::v1::LaneMessage message, Bytes data, LaneEnd* lane) {
  Kept& kept = kept_[call];
  kept = {std::move(message), std::move(data)};
  if (lane != nullptr) Pass(call, kept, *lane);
}

void CallBytes::Pass(uint64_t call, const Kept& kept, LaneEnd& lane) {
  const bool in_message = kept.data.size() <= kInMessage;
  lane.Send(kept.message, in_message ? kept.data : Bytes());
  if (in_message) return;
  sender_.Add(call, kept.data, 0);
  sender_.Pump(lane);
}

void CallBytes::Forget(uint64_t call) {
  sender_.Drop(call);
  kept_.erase(call);
}

void CallBytes::Resume(LaneEnd& lane) {
  sender_.Clear();
  for (const auto& [call, kept] : kept_) Pass(call, kept, lane);
}

void CallBytes::LaneGone() {
  sender_.Clear();
  receiver_.emplace();
}

void CallBytes::Clear() {
  LaneGone();
  kept_.clear();
}

absl::Status CallBytes::Expect(uint64_t call, size_t bytes, BlockCache& blocks) {
  std::optional<AlignedBytes> memory = blocks.Take(bytes);
  if (!memory.has_value()) return NoMemory(bytes);
  receiver_->Expect(call, *std::move(memory));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Bytes>> CallBytes::Add(const ::pathways::v1::LaneBytes& bytes, Bytes part) {
  if (!receiver_->expects(bytes.call())) return std::nullopt;
  absl::StatusOr<bool> complete = receiver_->Add(bytes.call(), bytes.offset(), bytes.total_bytes(), std::move(part));
  if (!complete.ok()) return complete.status();
  if (!*complete) return std::nullopt;
  return receiver_->Take(bytes.call());
}

absl::StatusOr<Bytes> Join(const std::vector<Bytes>& parts) {
  std::vector<uint64_t> sizes;
  size_t filled = 0;
  Bytes last;
  for (const Bytes& part : parts) {
    sizes.push_back(part.size());
    if (part.empty()) continue;
    ++filled;
    last = part;
  }
  const std::optional<size_t> total = SumOfCall(sizes);
  if (!total.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a call of a Python function carries at most ", kCallBytes >> 20, " MiB each way: pass less at a time"));
  }
  if (filled <= 1) return last;
  std::optional<AlignedBytes> joined = TryAllocate(*total);
  if (!joined.has_value()) return NoMemory(*total);
  size_t offset = 0;
  for (const Bytes& part : parts) {
    if (!part.empty()) std::memcpy(joined->data() + offset, part.data(), part.size());
    offset += part.size();
  }
  return std::move(*joined).Freeze();
}

absl::StatusOr<std::vector<Bytes>> Cut(const Bytes& bytes, const std::vector<uint64_t>& sizes) {
  std::vector<Bytes> pieces;
  uint64_t offset = 0;
  for (uint64_t size : sizes) {
    if (size > bytes.size() - offset) return absl::InvalidArgumentError("a host call announces more bytes than it brings");
    pieces.push_back(size == 0 ? Bytes() : bytes.Slice(offset, size));
    offset += size;
  }
  if (offset == bytes.size()) return pieces;
  return absl::InvalidArgumentError(absl::StrCat("a host call brings ", bytes.size(), " bytes and announces ", offset));
}

std::optional<size_t> SumOfCall(const std::vector<uint64_t>& sizes) {
  size_t sum = 0;
  for (uint64_t size : sizes) {
    if (size > kCallBytes - sum) return std::nullopt;
    sum += size;
  }
  return sum;
}

}  // namespace pw::lanes
