#include "pathways/relay/call_message.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/dtype.h"
#include "pathways/net/shared_memory.h"

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

// 64 bits, which a JSON number has not.
absl::StatusOr<uint64_t> TextNumber(const Struct& header, const std::string& name) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(Field(header, name).string_value(), &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be a number as text"));
}

absl::StatusOr<DownloadRequest> ParseDownload(const Struct& header) {
  PW_ASSIGN_OR_RETURN(const uint64_t session, TextNumber(header, "session"));
  PW_ASSIGN_OR_RETURN(const uint64_t handle, TextNumber(header, "download"));
  PW_ASSIGN_OR_RETURN(const uint64_t bytes, TextNumber(header, "bytes"));
  return DownloadRequest{session, handle, bytes};
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

std::string EncodeDownload(const absl::StatusOr<Bytes>& memory) {
  const auto name = memory.ok() ? net::NameOf(*memory) : std::nullopt;
  if (name.has_value()) {
    return WithLength(absl::StrCat(
        "{\"memory\":[",
        absl::StrJoin({uint64_t(name->pid), uint64_t(name->fd), name->device, name->inode, name->offset, name->size}, ","),
        "]}"));
  }
  Struct answer;
  (*answer.mutable_fields())["error"].set_string_value(memory.ok() ? "it is not in shared memory"
                                                                   : std::string(memory.status().message()));
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(answer, &json).ok()) json = "{\"error\":\"\"}";  // text that is not UTF-8
  return WithLength(json);
}

absl::StatusOr<PythonMessage> ParseHeader(const std::string& json) {
  Struct header;
  if (!google::protobuf::util::JsonStringToMessage(json, &header).ok()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  PythonMessage message;
  message.companion = Field(header, "companion").string_value();
  if (!message.companion.empty()) return message;
  if (header.fields().contains("download")) {
    PW_ASSIGN_OR_RETURN(message.download, ParseDownload(header));
    return message;
  }
  auto call = NumberField(header, "call");
  if (!call.ok()) return call.status();
  message.answer.set_call(*call);
  const bool ok = Field(header, "ok").bool_value();
  const absl::Status rest = ok ? ParseResults(header, &message) : ParseFailure(header, &message);
  if (!rest.ok()) return rest;
  return message;
}

}  // namespace pw::relay
