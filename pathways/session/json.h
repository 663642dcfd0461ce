// Readers of JSON in requests of clients.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pathways/base/ids.h"
#include "pathways/json/json.h"

namespace pw::session {

// Readers like those of json/json.h.
absl::StatusOr<std::string> Base64Field(const JsonObject& object, const std::string& name);
bool BoolField(const JsonObject& object, const std::string& name);  // false if missing

// {"device_ids": [...]}
absl::StatusOr<std::vector<DeviceId>> DevicesField(const JsonObject& object, const std::string& name);

}  // namespace pw::session
