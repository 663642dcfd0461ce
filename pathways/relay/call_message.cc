#include "pathways/relay/call_message.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "pathways/buffers/dtype.h"

namespace pw::relay {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// JSON numbers are doubles: exact for every call number and size that occurs.
constexpr double kMaxExact = 9007199254740992.0;

absl::StatusOr<uint64_t> Number(const Value& value, absl::string_view name) {
  const double number = value.number_value();
  if (value.kind_case() != Value::kNumberValue || number < 0 || number > kMaxExact || number != std::floor(number)) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be a number that counts something"));
  }
  return static_cast<uint64_t>(number);
}

absl::StatusOr<uint64_t> NumberField(const Struct& header, const std::string& name) {
  const auto field = header.fields().find(name);
  if (field == header.fields().end()) return absl::InvalidArgumentError(absl::StrCat("'", name, "' is missing"));
  return Number(field->second, name);
}

const Value& Field(const Struct& header, const std::string& name) {
  const auto field = header.fields().find(name);
  return field == header.fields().end() ? Value::default_instance() : field->second;
}

std::string WithLength(const std::string& json) {
  std::string message(4, '\0');
  for (int i = 0; i < 4; ++i) message[i] = static_cast<char>(json.size() >> (8 * i));
  return message + json;
}

absl::Status ParseResults(const Struct& header, PythonMessage* message) {
  for (const Value& value : Field(header, "results").list_value().values()) {
    auto size = Number(value, "results");
    if (!size.ok()) return size.status();
    message->answer.add_results();
    message->result_sizes.push_back(*size);
  }
  return absl::OkStatus();
}

absl::Status ParseFailure(const Struct& header, PythonMessage* message) {
  auto code = NumberField(header, "code");
  if (!code.ok()) return code.status();
  message->answer.mutable_status()->set_code(static_cast<int>(*code));
  message->answer.mutable_status()->set_message(Field(header, "message").string_value());
  return absl::OkStatus();
}

}  // namespace

std::string EncodeCall(const pathways::v1::HostCallRequest& call) {
  std::string json = absl::StrCat("{\"call\":", call.call(), ",\"callback\":", call.callback(), ",\"operands\":[");
  for (int i = 0; i < call.operands_size(); ++i) {
    const auto& operand = call.operands(i);
    const auto dtype = buffers::DTypeFromNumber(operand.dtype());
    const std::string_view name = dtype.ok() ? buffers::Name(*dtype) : "unknown";
    absl::StrAppend(&json, i > 0 ? "," : "", "{\"dtype\":\"", absl::string_view(name.data(), name.size()), "\",\"dims\":[",
                    absl::StrJoin(operand.dims(), ","), "],\"bytes\":", operand.data().size(), "}");
  }
  return WithLength(json + "]}");
}

absl::StatusOr<PythonMessage> ParseHeader(const std::string& json) {
  Struct header;
  if (!google::protobuf::util::JsonStringToMessage(json, &header).ok()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  PythonMessage message;
  message.companion = Field(header, "companion").string_value();
  if (!message.companion.empty()) return message;
  auto call = NumberField(header, "call");
  if (!call.ok()) return call.status();
  message.answer.set_call(*call);
  const bool ok = Field(header, "ok").bool_value();
  const absl::Status rest = ok ? ParseResults(header, &message) : ParseFailure(header, &message);
  if (!rest.ok()) return rest;
  return message;
}

}  // namespace pw::relay
