#include "pathways/callbacks/connection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/post.hpp"
#include "asio/read.hpp"
#include "asio/write.hpp"
#include "pathways/base/log.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/lanes/call_bytes.h"

namespace pw::callbacks {
namespace {

constexpr uint64_t kDropBytes = 1 << 20;  // at a time

// Cannot overflow: each size is a number that JSON can represent, and the sum is capped.
uint64_t SumOf(const std::vector<uint64_t>& sizes) {
  uint64_t sum = 0;
  for (uint64_t size : sizes) sum = std::min(sum + size, uint64_t{1} << 62);
  return sum;
}

}  // namespace

std::function<void(std::function<void(Connection&)>)> Connection::PosterToThread() {
  return [io = io_.lock(), weak = weak_from_this()](std::function<void(Connection&)> task) {
    asio::post(*io, [weak, task = std::move(task)] {
      if (auto self = weak.lock()) task(*self);
    });
  };
}

void Connection::Start() {
  caller_ = std::make_shared<Caller>([on_thread = PosterToThread()](uint64_t number, session::HostCall call) {
    on_thread([number, call = std::move(call)](Connection& self) { self.Write(number, call); });
  });
  ReadLength();
}

void Connection::Close() {
  if (std::exchange(closed_, true)) return;
  asio::error_code ignored;
  (void)socket_.close(ignored);
  door_.post([caller = caller_, door = door_] {
    if (!caller->token.empty()) door.remove(caller->token);
    caller->OnClosed();
  });
}

void Connection::CloseBecause(const absl::Status& why) {
  PW_LOG_ERROR << "callback socket: " << why.message() << "; closing the connection";
  Close();
}

// ---- Python to door ----

void Connection::ReadLength() {
  asio::async_read(socket_, asio::buffer(length_), [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Close();
    uint32_t length = 0;
    for (int i = 0; i < 4; ++i) length |= uint32_t{self->length_[i]} << (8 * i);
    self->ReadHeader(length);
  });
}

void Connection::ReadHeader(uint32_t length) {
  if (length > kMaxHeader) return CloseBecause(absl::InvalidArgumentError(absl::StrCat("a header of ", length, " bytes")));
  header_.resize(length);
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](asio::error_code error, size_t) { error ? self->Close() : self->OnHeader(); });
}

void Connection::OnHeader() {
  absl::StatusOr<PythonMessage> message = ParseHeader(header_);
  if (!message.ok()) return CloseBecause(message.status());
  if (message->companion.empty() != named_)
    return CloseBecause(absl::InvalidArgumentError("the token must come first, and once"));
  message_ = *std::move(message);
  if (!named_) return Register(message_.companion);
  if (!message_.status.ok()) return PassToCaller(message_.status);
  ReadResults();
}

void Connection::Register(const std::string& token) {
  named_ = true;
  door_.post([on_thread = PosterToThread(), caller = caller_, token, door = door_] {
    const absl::Status added = door.add(token, caller);
    if (added.ok()) {
      caller->token = token;
    } else {
      on_thread([added](Connection& self) { self.CloseBecause(added); });
    }
  });
  ReadLength();
}

void Connection::ReadResults() {
  const uint64_t total = SumOf(message_.result_bytes);
  if (total == 0) return PassToCaller(std::vector<Bytes>(message_.result_bytes.size()));
  std::optional<AlignedBytes> memory = total <= lanes::kCallBytes ? TryAllocate(total) : std::nullopt;
  if (!memory.has_value()) return DropResults(total);
  const asio::mutable_buffer place = asio::buffer(memory->data(), total);
  auto read = [self = shared_from_this(), memory = *std::move(memory)](asio::error_code error, size_t) mutable {
    if (error) return self->Close();
    self->PassToCaller(lanes::Cut(std::move(memory).Freeze(), self->message_.result_bytes));
  };
  asio::async_read(socket_, place, std::move(read));
}

void Connection::DropResults(uint64_t left) {
  if (left == 0) {
    return PassToCaller(
        absl::ResourceExhaustedError(absl::StrCat("a host callback returned more than ", lanes::kCallBytes >> 30,
                                                  " GiB, or more than there is memory for; return the data in parts")));
  }
  dropped_.resize(std::min(left, kDropBytes));
  asio::async_read(socket_, asio::buffer(dropped_), [self = shared_from_this(), left](asio::error_code error, size_t bytes) {
    error ? self->Close() : self->DropResults(left - bytes);
  });
}

void Connection::PassToCaller(absl::StatusOr<std::vector<Bytes>> results) {
  door_.post([on_thread = PosterToThread(), caller = caller_, call = message_.call, results = std::move(results)]() mutable {
    const absl::Status taken = caller->OnAnswer(call, std::move(results));
    if (!taken.ok()) on_thread([taken](Connection& self) { self.CloseBecause(taken); });
  });
  ReadLength();
}

// ---- door to Python ----

void Connection::Write(uint64_t number, session::HostCall call) {
  if (closed_) return;
  outgoing_.push_back({EncodeCall(number, call), std::move(call.data)});
  if (outgoing_.size() == 1) WriteNext();
}

void Connection::WriteNext() {
  const Outgoing& next = outgoing_.front();
  std::vector<asio::const_buffer> parts = {asio::buffer(next.header)};
  for (const Bytes& operand : next.operands) parts.push_back(asio::buffer(operand.data(), operand.size()));
  asio::async_write(socket_, parts, [self = shared_from_this()](asio::error_code error, size_t) {
    if (error) return self->Close();
    self->outgoing_.pop_front();
    if (!self->outgoing_.empty()) self->WriteNext();
  });
}

}  // namespace pw::callbacks
