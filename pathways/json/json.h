// Readers of JSON that comes from outside, into protobuf's Struct. Errors call the text "it"; the caller says of which text. Pure.
#pragma once

#include <cstdint>
#include <optional>
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
// Returns the number if it is whole and from 0 to 2^53, as far as JSON's doubles are exact. None for any other value.
std::optional<uint64_t> CountOf(const JsonValue& value);

// Returns the error of a field that is missing or not of this kind, such as "a string".
absl::Status MissingField(const std::string& name, absl::string_view kind);
// These return the value of a field, or that error.
absl::StatusOr<JsonObject> ObjectField(const JsonObject& object, const std::string& name);
absl::StatusOr<std::vector<JsonObject>> ObjectsField(const JsonObject& object, const std::string& name);
absl::StatusOr<std::string> StringField(const JsonObject& object, const std::string& name);
absl::StatusOr<std::vector<int64_t>> NumbersField(const JsonObject& object, const std::string& name);

}  // namespace pw
