#include "pathways/callbacks/call_message.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pathways/base/status_code.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/dtype.h"
#include "pathways/json/json.h"

namespace pw::callbacks {
namespace {

absl::StatusOr<uint64_t> Number(const JsonValue& value, absl::string_view name) {
  const std::optional<uint64_t> number = CountOf(value);
  if (!number.has_value()) return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be a whole number, not negative"));
  return *number;
}

// Returns the field; a value of no kind if there is none.
const JsonValue& Field(const JsonObject& header, const std::string& name) {
  const JsonValue* field = FindField(header, name);
  return field == nullptr ? JsonValue::default_instance() : *field;
}

absl::Status ParseFailure(const JsonObject& header, PythonMessage* message) {
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
  absl::StatusOr<JsonObject> parsed = ParseJson(json);
  if (!parsed.ok()) return absl::InvalidArgumentError("the header is not a JSON object");
  const JsonObject& header = *parsed;
  PythonMessage message;
  message.companion = Field(header, "companion").string_value();
  if (!message.companion.empty()) return message;
  PW_ASSIGN_OR_RETURN(message.call, Number(Field(header, "call"), "call"));
  if (!Field(header, "ok").bool_value()) {
    PW_RETURN_IF_ERROR(ParseFailure(header, &message));
    return message;
  }
  for (const JsonValue& value : Field(header, "results").list_value().values()) {
    PW_ASSIGN_OR_RETURN(const uint64_t bytes, Number(value, "results"));
    message.result_bytes.push_back(bytes);
  }
  return message;
}

}  // namespace pw::callbacks
