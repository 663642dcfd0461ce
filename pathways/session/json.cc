#include "pathways/session/json.h"

#include <limits>

#include "absl/strings/escaping.h"
#include "pathways/base/status_macros.h"

namespace pw::session {

absl::StatusOr<std::string> Base64Field(const JsonObject& object, const std::string& name) {
  PW_ASSIGN_OR_RETURN(std::string text, StringField(object, name));
  std::string decoded;
  if (!absl::Base64Unescape(text, &decoded)) return MissingField(name, "in base64");
  return decoded;
}

bool BoolField(const JsonObject& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  return value != nullptr && value->bool_value();
}

absl::StatusOr<std::vector<DeviceId>> DevicesField(const JsonObject& object, const std::string& name) {
  PW_ASSIGN_OR_RETURN(JsonObject list, ObjectField(object, name));
  PW_ASSIGN_OR_RETURN(std::vector<int64_t> ids, NumbersField(list, "device_ids"));
  std::vector<DeviceId> devices;
  for (int64_t id : ids) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) return MissingField(name, "device numbers");
    devices.push_back(DeviceId(static_cast<int32_t>(id)));
  }
  if (devices.empty()) return MissingField(name, "with at least one device");
  return devices;
}

}  // namespace pw::session
