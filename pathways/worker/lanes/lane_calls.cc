#include "pathways/worker/lanes/lane_calls.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/worker/store/outbox.h"

namespace pw::worker {
namespace {

namespace v1 = pathways::v1;

absl::Status CheckResults(const v1::LaneAnswer& answer, const std::vector<uint64_t>& expected) {
  const std::vector<uint64_t> results(answer.result_bytes().begin(), answer.result_bytes().end());
  if (results == expected) return absl::OkStatus();
  if (results.size() != expected.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the host callback returned ", results.size(), " results instead of ", expected.size()));
  }
  size_t i = 0;
  while (results[i] == expected[i]) ++i;
  return absl::InvalidArgumentError(
      absl::StrCat("result ", i, " of the host callback has ", results[i], " bytes instead of ", expected[i]));
}

}  // namespace

void LaneCalls::Start(uint64_t number, const device::HostCallRequest& request, Done done, lanes::LaneEnd* lane) {
  v1::LaneMessage message;
  v1::LaneCall& call = *message.mutable_call();
  call.set_call(number);
  call.set_callback(request.callback);
  std::vector<Bytes> parts;
  for (const device::HostCallOperand& operand : request.operands) {
    auto& described = *call.add_operands();
    described.set_dtype(static_cast<int32_t>(operand.dtype));
    for (int64_t d : operand.dims) described.add_dims(d);
    described.set_bytes(operand.data.size());
    parts.push_back(operand.data);
  }
  absl::StatusOr<Bytes> data = lanes::Join(parts);
  if (data.ok() && message.ByteSizeLong() > lanes::kHeaderBytes)
    data = absl::ResourceExhaustedError(
        absl::StrCat("a program calls a Python function with ", parts.size(), " operands: pass fewer"));
  const std::vector<uint64_t> result_bytes(request.result_bytes.begin(), request.result_bytes.end());
  if (data.ok() && !lanes::SumOfCall(result_bytes).has_value()) {
    data = absl::ResourceExhaustedError(
        absl::StrCat("a Python function returns at most ", lanes::kCallBytes >> 20, " MiB to a program: return less at a time"));
  }
  if (!data.ok()) return done(data.status());
  calls_[number] = {result_bytes, std::move(done)};
  operands_.Send(number, std::move(message), *std::move(data), lane);
}

absl::Status LaneCalls::OnAnswer(const v1::LaneAnswer& answer, const Bytes& payload, BlockCache& blocks, lanes::LaneEnd& lane) {
  const uint64_t number = answer.call();
  operands_.Forget(number);
  operands_.Drop(number);
  auto call = calls_.find(number);
  if (call == calls_.end()) {
    SayTaken(number, lane);
    return absl::OkStatus();
  }
  absl::Status status = FromProto(answer.status());
  if (status.ok()) status = CheckResults(answer, call->second.result_bytes);
  if (!status.ok()) {
    Finish(number, status, lane);
    return absl::OkStatus();
  }
  const size_t bytes = *lanes::SumOfCall(call->second.result_bytes);
  if (bytes > lanes::CallBytes::kInMessage) {
    if (!payload.empty())
      return absl::InvalidArgumentError("the answer to a call of a Python function has more bytes than its results");
    if (absl::Status taken = operands_.Expect(number, bytes, blocks); !taken.ok()) Finish(number, taken, lane);
    return absl::OkStatus();
  }
  PW_ASSIGN_OR_RETURN(std::vector<Bytes> results, lanes::Cut(payload, call->second.result_bytes));
  Finish(number, std::move(results), lane);
  return absl::OkStatus();
}

absl::Status LaneCalls::OnBytes(const v1::LaneBytes& bytes, Bytes payload, lanes::LaneEnd& lane) {
  PW_ASSIGN_OR_RETURN(const std::optional<Bytes> all, operands_.Add(bytes, std::move(payload)));
  if (!all.has_value()) return absl::OkStatus();
  auto call = calls_.find(bytes.call());
  if (call == calls_.end()) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(std::vector<Bytes> results, lanes::Cut(*all, call->second.result_bytes));
  Finish(bytes.call(), std::move(results), lane);
  return absl::OkStatus();
}

// Lets the client forget its answer, also for a call that has ended meanwhile.
void LaneCalls::SayTaken(uint64_t number, lanes::LaneEnd& lane) {
  v1::LaneMessage message;
  message.mutable_taken()->add_calls(number);
  lane.Send(message);
}

void LaneCalls::Finish(uint64_t number, device::HostCallReply reply, lanes::LaneEnd& lane) {
  SayTaken(number, lane);
  auto node = calls_.extract(number);
  if (!node.empty()) node.mapped().done(std::move(reply));
}

void LaneCalls::Fail(const absl::Status& status) {
  operands_.Clear();
  std::map<uint64_t, Call> calls;
  calls.swap(calls_);
  for (const auto& [number, call] : calls) call.done(status);
}

}  // namespace pw::worker
