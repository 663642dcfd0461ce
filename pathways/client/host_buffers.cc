#include "pathways/client/host_buffers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/byte_strides.h"

namespace pw::client {
namespace {

absl::Status WrongSize(int64_t has, int64_t needs) {
  return absl::InvalidArgumentError(absl::StrCat("a host buffer of ", has, " bytes came for an array that needs ", needs));
}

int64_t SizeOf(const absl::StatusOr<Bytes>& data) { return data.ok() ? static_cast<int64_t>(data->size()) : 0; }

}  // namespace

absl::StatusOr<int64_t> HostBuffers::BytesOf(const session::HostLayout& layout) {
  const int width = buffers::HostBytes(layout.dtype);
  if (!layout.byte_strides.has_value() || width == 0) return buffers::DenseBytes(layout.dtype, layout.dims);
  PW_ASSIGN_OR_RETURN(const buffers::StridedExtent extent, buffers::SpannedRegion(width, layout.dims, *layout.byte_strides));
  return extent.bytes;
}

void HostBuffers::Announce(Handle buffer, int64_t bytes, session::StatusCallback admitted) {
  if (bytes <= limits_.in_frame) return std::move(admitted)(absl::OkStatus());
  waiting_.push_back({buffer, bytes, std::move(admitted)});
  Admit();
}

void HostBuffers::Admit() {
  std::vector<session::StatusCallback> admitted;
  while (!waiting_.empty()) {
    Waiting& next = waiting_.front();
    const bool fits = next.bytes <= limits_.kept - kept_ - announced_;
    if (!fits && under_way_ + announced_ > 0) break;
    buffers_[next.buffer].announced = next.bytes;
    announced_ += next.bytes;
    admitted.push_back(std::move(next.admitted));
    waiting_.pop_front();
  }
  for (auto& callback : admitted) std::move(callback)(absl::OkStatus());
}

void HostBuffers::Forget(Handle handle) {
  auto it = buffers_.find(handle);
  if (it == buffers_.end() || it->second.announced == 0) return;
  announced_ -= std::exchange(it->second.announced, 0);
  if (it->second.done || (it->second.way == Way::kUnknown && !it->second.data.has_value())) buffers_.erase(it);
  Admit();
}

void HostBuffers::Keep(Buffer& buffer, absl::StatusOr<Bytes> data) {
  if (buffer.way == Way::kByLane && data.ok() && SizeOf(data) != buffer.bytes) data = WrongSize(SizeOf(data), buffer.bytes);
  kept_ += SizeOf(data);
  if (buffer.way == Way::kByLane) under_way_ += SizeOf(data);
  buffer.data = std::move(data);
}

void HostBuffers::Drop(Handle handle) {
  auto node = buffers_.extract(handle);
  Buffer& buffer = node.mapped();
  announced_ -= buffer.announced;
  if (!buffer.data.has_value()) return;
  kept_ -= SizeOf(*buffer.data);
  if (buffer.way == Way::kByLane) under_way_ -= SizeOf(*buffer.data);
}

// A buffer that is too large for a frame differs in size from its array, which is small.
void HostBuffers::SendInFrame(Handle handle, Buffer& buffer, absl::StatusOr<Bytes> data) {
  if (!buffer.strings && SizeOf(data) > limits_.in_frame) data = WrongSize(SizeOf(data), buffer.bytes);
  ways_.in_frame(handle, std::move(data));
}

void HostBuffers::Store(Handle handle, absl::StatusOr<Bytes> data) {
  Buffer& buffer = buffers_[handle];
  announced_ -= std::exchange(buffer.announced, 0);
  if (buffer.done) {
    buffers_.erase(handle);
  } else if (buffer.way == Way::kInFrame) {
    SendInFrame(handle, buffer, std::move(data));
    buffers_.erase(handle);
  } else if (buffer.way == Way::kUnknown && data.ok() && SizeOf(data) <= limits_.in_frame) {
    ways_.in_frame(handle, std::move(data));
    buffer.sent = true;
  } else {
    Keep(buffer, std::move(data));
    for (const auto& [host, offset] : std::exchange(buffer.wanted, {})) Deliver(host, handle, buffer, offset);
  }
  Admit();
}

void HostBuffers::Offer(Handle handle, Bytes data) {
  Buffer& buffer = buffers_[handle];
  buffer.way = Way::kByLane;
  buffer.bytes = static_cast<int64_t>(data.size());
  Keep(buffer, std::move(data));
}

bool HostBuffers::Make(Handle handle, const session::HostLayout& layout) {
  const absl::StatusOr<int64_t> bytes = BytesOf(layout);
  Buffer& buffer = buffers_[handle];
  if (buffer.way != Way::kUnknown) return buffer.way == Way::kByLane;  // two arrays name it: the controller reports that
  if (buffer.sent) {
    Drop(handle);
    return false;
  }
  buffer.strings = layout.dtype == buffers::DType::kString;
  buffer.bytes = bytes.value_or(0);
  const bool there = buffer.data.has_value();
  const bool failed = there && !buffer.data->ok();
  if (!buffer.strings && !failed && (buffer.bytes > limits_.in_frame || (there && buffer.bytes > 0))) {
    buffer.way = Way::kByLane;
    if (there) {
      absl::StatusOr<Bytes> data = *std::exchange(buffer.data, std::nullopt);
      kept_ -= SizeOf(data);
      Keep(buffer, std::move(data));
    }
    return true;
  }
  buffer.way = Way::kInFrame;
  if (!there) return false;
  kept_ -= SizeOf(*buffer.data);
  SendInFrame(handle, buffer, *std::exchange(buffer.data, std::nullopt));
  Drop(handle);
  Admit();
  return false;
}

void HostBuffers::OnWant(HostId host, Handle handle, uint64_t offset, uint64_t total_bytes) {
  auto it = buffers_.find(handle);
  if (it == buffers_.end() || it->second.way != Way::kByLane || it->second.done)
    return ways_.failed(host, handle,
                        absl::NotFoundError(absl::StrCat("the client does not have host buffer ", handle, " any more")));
  Buffer& buffer = it->second;
  if (total_bytes != static_cast<uint64_t>(buffer.bytes) || offset >= total_bytes)
    return ways_.failed(host, handle, WrongSize(buffer.bytes, static_cast<int64_t>(total_bytes)));
  if (buffer.data.has_value()) return Deliver(host, handle, buffer, offset);
  buffer.wanted[host] = offset;
}

void HostBuffers::Deliver(HostId host, Handle handle, const Buffer& buffer, uint64_t offset) {
  if (buffer.data->ok())
    ways_.on_lane(host, handle, **buffer.data, offset);
  else
    ways_.failed(host, handle, buffer.data->status());
}

void HostBuffers::OnLaneBroken(HostId host) {
  for (auto& [handle, buffer] : buffers_) buffer.wanted.erase(host);
}

void HostBuffers::OnDone(Handle handle) {
  auto it = buffers_.find(handle);
  if (it == buffers_.end() || it->second.way != Way::kByLane) return;
  ways_.done(handle);
  if (it->second.data.has_value()) {
    Drop(handle);
  } else {
    it->second.done = true;
    it->second.wanted.clear();
  }
  Admit();
}

void HostBuffers::End(const absl::Status& status) {
  for (auto& waiting : std::exchange(waiting_, {})) std::move(waiting.admitted)(status);
}

}  // namespace pw::client
