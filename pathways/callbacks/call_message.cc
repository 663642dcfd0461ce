#include "pathways/callbacks/call_message.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "pathways/base/status_code.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/dtype.h"

namespace pw::callbacks {
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

const Value& Field(const Struct& header, const std::string& name) {
  const auto field = header.fields().find(name);
  return field == header.fields().end() ? Value::default_instance() : field->second;
}

absl::Status ParseFailure(const Struct& header, PythonMessage* message) {
  PW_ASSIGN_OR_RETURN(const uint64_t code, Number(Field(header, "code"), "code"));
  if (code == 0) return absl::InvalidArgumentError("a failure must have a code");
  message->status = StatusFrom(static_cast<int>(code), Field(header, "message").string_value());
  return absl::OkStatus();
}

}  // namespace

std::string EncodeCall(uint64_t number, const session::HostCall& call) {
  std::string json = absl::StrCat("{\"call\":", number, ",\"callback\":", call.callback, ",\"operands\":[");
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const std::string_view name = buffers::Name(call.operands[i].dtype);
    absl::StrAppend(&json, i > 0 ? "," : "", "{\"dtype\":\"", absl::string_view(name.data(), name.size()), "\",\"dims\":[",
                    absl::StrJoin(call.operands[i].dims, ","), "],\"bytes\":", call.data[i].size(), "}");
  }
  json += "]}";
  std::string message(4, '\0');
  for (int i = 0; i < 4; ++i) message[i] = static_cast<char>(json.size() >> (8 * i));
  return message + json;
}

absl::StatusOr<PythonMessage> ParseHeader(const std::string& json) {
  Struct header;
  if (!google::protobuf::util::JsonStringToMessage(json, &header).ok()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  PythonMessage message;
  message.companion = Field(header, "companion").string_value();
  if (!message.companion.empty()) return message;
  PW_ASSIGN_OR_RETURN(message.call, Number(Field(header, "call"), "call"));
  if (!Field(header, "ok").bool_value()) {
    PW_RETURN_IF_ERROR(ParseFailure(header, &message));
    return message;
  }
  for (const Value& value : Field(header, "results").list_value().values()) {
    PW_ASSIGN_OR_RETURN(const uint64_t bytes, Number(value, "results"));
    message.result_bytes.push_back(bytes);
  }
  return message;
}

}  // namespace pw::callbacks
