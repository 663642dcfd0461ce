#include "pathways/client/host_calls.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/wire.h"

namespace pw::client {
namespace {

using ::pathways::v1::LaneCall;
using ::pathways::v1::LaneMessage;

// The longest text of an error. A longer one, such as a deep traceback, is cut: lanes limit the size of messages.
constexpr size_t kErrorBytes = 128 << 10;

std::vector<uint64_t> SizesOf(const LaneCall& call) {
  std::vector<uint64_t> sizes;
  for (const auto& operand : call.operands()) sizes.push_back(operand.bytes());
  return sizes;
}

absl::StatusOr<session::HostCall> Read(const LaneCall& message, const Bytes& operands) {
  session::HostCall call;
  call.callback = message.callback();
  PW_ASSIGN_OR_RETURN(call.data, lanes::Cut(operands, SizesOf(message)));
  for (const auto& operand : message.operands()) {
    PW_ASSIGN_OR_RETURN(const buffers::DType dtype, buffers::DTypeFromNumber(operand.dtype()));
    call.operands.push_back({dtype, buffers::Dims(operand.dims().begin(), operand.dims().end()), std::nullopt});
  }
  return call;
}

// Cuts off the end of a long text, between two characters.
absl::Status Shortened(const absl::Status& error) {
  absl::string_view text = error.message();
  if (text.size() <= kErrorBytes) return error;
  size_t end = kErrorBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return absl::Status(error.code(), absl::StrCat(text.substr(0, end), "\n[the rest of the text is left out]"));
}

}  // namespace

absl::Status HostCalls::OnCall(const LaneCall& message, const Bytes& payload, const Handler& handler, BlockCache& blocks) {
  const uint64_t number = message.call();
  auto [it, is_new] = calls_.try_emplace(number);
  if (it->second.arrived) return absl::OkStatus();  // the lane broke before the host got Taken
  if (is_new) it->second.message = message;
  const std::optional<size_t> bytes = lanes::SumOfCall(SizesOf(message));
  if (!bytes.has_value()) return absl::InvalidArgumentError("a call of a Python function announces too many operands");
  if (*bytes <= lanes::CallBytes::kInMessage) {
    Run(number, payload, handler);
    return absl::OkStatus();
  }
  if (!payload.empty()) return absl::InvalidArgumentError("a call of a Python function has more bytes than its operands need");
  answers_.Drop(number);
  if (absl::Status taken = answers_.Expect(number, *bytes, blocks); !taken.ok()) {
    it->second.arrived = true;
    Answer(number, taken);
  }
  return absl::OkStatus();
}

absl::Status HostCalls::OnBytes(const ::pathways::v1::LaneBytes& bytes, Bytes payload, const Handler& handler) {
  PW_ASSIGN_OR_RETURN(const std::optional<Bytes> all, answers_.Add(bytes, std::move(payload)));
  if (all.has_value()) Run(bytes.call(), *all, handler);
  return absl::OkStatus();
}

void HostCalls::Run(uint64_t number, const Bytes& operands, const Handler& handler) {
  Call& call = calls_.at(number);
  call.arrived = true;
  LaneMessage taken;
  taken.mutable_taken()->add_calls(number);
  lane_->Send(taken);
  absl::StatusOr<session::HostCall> read = Read(call.message, operands);
  call.message.Clear();
  if (read.ok() && handler == nullptr) read = session::NoHostCallHandler();
  if (!read.ok()) return Answer(number, read.status());
  handler->OnHostCall(*std::move(read), [weak = weak_from_this(), number](absl::StatusOr<std::vector<Bytes>> results) {
    if (auto self = weak.lock()) self->Answer(number, results);
  });
}

void HostCalls::Answer(uint64_t number, const absl::StatusOr<std::vector<Bytes>>& results) {
  LaneMessage message;
  auto& answer = *message.mutable_answer();
  answer.set_call(number);
  absl::StatusOr<Bytes> data = results.ok() ? lanes::Join(*results) : results.status();
  if (data.ok()) {
    for (const Bytes& result : *results) answer.add_result_bytes(result.size());
    if (message.ByteSizeLong() > lanes::kHeaderBytes)
      data = absl::ResourceExhaustedError(
          absl::StrCat("a Python function returned ", results->size(), " arrays to a program: return fewer"));
  }
  if (!data.ok()) {
    answer.clear_result_bytes();
    session::ToProto(Shortened(data.status()), answer.mutable_status());
  }
  answers_.Send(number, std::move(message), data.ok() ? *std::move(data) : Bytes(), lane_);
}

void HostCalls::OnTaken(uint64_t number) {
  if (answers_.keeps(number)) calls_.erase(number);
  answers_.Forget(number);
}

void HostCalls::LaneOpened(lanes::LaneEnd* lane) {
  lane_ = lane;
  answers_.Resume(*lane);
}

void HostCalls::LaneGone() {
  lane_ = nullptr;
  answers_.LaneGone();
  std::erase_if(calls_,
                [](const auto& call) { return !call.second.arrived; });  // the host sends them again, if it still needs them
}

}  // namespace pw::client
