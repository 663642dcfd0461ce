// Readers of JSON, into protobuf's Struct.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/struct.pb.h"

namespace pw {

using JsonObject = google::protobuf::Struct;
using JsonValue = google::protobuf::Value;

// Parses one object. INVALID_ARGUMENT if `text` is anything else.
absl::StatusOr<JsonObject> ParseJson(absl::string_view text);

// Returns a field, or null if there is none.
const JsonValue* FindField(const JsonObject& object, const std::string& name);
// The error of a field that is not of this kind, such as "a string".
absl::Status MissingField(const std::string& name, absl::string_view kind);
// All of these return INVALID_ARGUMENT, naming the field, if it is missing or of another kind.
absl::StatusOr<JsonObject> ObjectField(const JsonObject& object, const std::string& name);
absl::StatusOr<std::vector<JsonObject>> ObjectsField(const JsonObject& object, const std::string& name);
absl::StatusOr<std::string> StringField(const JsonObject& object, const std::string& name);
absl::StatusOr<std::vector<int64_t>> NumbersField(const JsonObject& object, const std::string& name);

}  // namespace pw
