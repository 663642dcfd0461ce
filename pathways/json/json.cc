#include "pathways/json/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"
#include "pathways/base/status_macros.h"

namespace pw {
namespace {

constexpr double kMostExact = 9007199254740992.0;  // 2^53: doubles hold smaller whole numbers exactly

bool IsWhole(const JsonValue& value) {
  const double number = value.number_value();
  return value.kind_case() == JsonValue::kNumberValue && std::trunc(number) == number && std::abs(number) <= kMostExact;
}

}  // namespace

const JsonValue* FindField(const JsonObject& object, const std::string& name) {
  auto it = object.fields().find(name);
  return it == object.fields().end() ? nullptr : &it->second;
}

std::optional<uint64_t> CountOf(const JsonValue& value) {
  if (!IsWhole(value) || value.number_value() < 0) return std::nullopt;
  return static_cast<uint64_t>(value.number_value());
}

absl::Status MissingField(const std::string& name, absl::string_view kind) {
  return absl::InvalidArgumentError(absl::StrCat("it needs a field \"", name, "\", ", kind));
}

absl::StatusOr<JsonObject> ParseJson(absl::string_view text) {
  JsonObject object;
  if (google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &object).ok()) return object;
  return absl::InvalidArgumentError("it is not a JSON object");
}

absl::StatusOr<JsonObject> ObjectField(const JsonObject& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr || !value->has_struct_value()) return MissingField(name, "an object");
  return value->struct_value();
}

absl::StatusOr<std::vector<JsonObject>> ObjectsField(const JsonObject& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr || !value->has_list_value()) return MissingField(name, "a list of objects");
  std::vector<JsonObject> objects;
  for (const JsonValue& item : value->list_value().values()) {
    if (!item.has_struct_value()) return MissingField(name, "a list of objects");
    objects.push_back(item.struct_value());
  }
  return objects;
}

absl::StatusOr<std::string> StringField(const JsonObject& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr || value->kind_case() != JsonValue::kStringValue) return MissingField(name, "a string");
  return value->string_value();
}

absl::StatusOr<std::vector<int64_t>> NumbersField(const JsonObject& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr || !value->has_list_value()) return MissingField(name, "a list of numbers");
  std::vector<int64_t> numbers;
  for (const JsonValue& item : value->list_value().values()) {
    if (!IsWhole(item)) return MissingField(name, "a list of whole numbers");
    numbers.push_back(static_cast<int64_t>(item.number_value()));
  }
  return numbers;
}

}  // namespace pw
