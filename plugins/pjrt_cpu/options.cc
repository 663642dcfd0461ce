#include "plugins/pjrt_cpu/options.h"

#include <cstdlib>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {
namespace {

constexpr absl::string_view kKnown =
    "cpu_device_count (or num_devices), asynchronous, max_inflight_computations_per_device, memory_limit_bytes, node_id, "
    "num_nodes, world, peer_device_count, network_address, island";

absl::StatusOr<int64_t> ReadInteger(const PJRT_NamedValue& value, int64_t low, int64_t high) {
  int64_t result = 0;
  if (value.type == PJRT_NamedValue_kInt64) {
    result = value.int64_value;
  } else if (value.type != PJRT_NamedValue_kString ||
             !absl::SimpleAtoi(absl::string_view(value.string_value, value.value_size), &result)) {
    return absl::InvalidArgumentError(
        absl::StrCat("client option ", absl::string_view(value.name, value.name_size), " must be an integer"));
  }
  if (result < low || result > high) {
    return absl::InvalidArgumentError(absl::StrCat("client option ", absl::string_view(value.name, value.name_size), " is ",
                                                   result, "; it must be between ", low, " and ", high));
  }
  return result;
}

absl::StatusOr<std::optional<int64_t>> ReadEnvironment(const char* name, int64_t low, int64_t high) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::optional<int64_t>();
  int64_t result = 0;
  if (!absl::SimpleAtoi(text, &result) || result < low || result > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable ", name, " is '", text, "'; it must be an integer between ", low, " and ", high));
  }
  return std::optional<int64_t>(result);
}

absl::Status ReadOne(const PJRT_NamedValue& value, Options& options) {
  const absl::string_view name(value.name, value.name_size);
  const int64_t kMax = std::numeric_limits<int64_t>::max();
  absl::StatusOr<int64_t> number = 0;
  if (name == "cpu_device_count" || name == "num_devices") {
    number = ReadInteger(value, 1, kMostDevices);
    if (number.ok()) options.device_count = static_cast<int>(*number);
  } else if (name == "max_inflight_computations_per_device") {
    number = ReadInteger(value, 1, std::numeric_limits<int>::max());
    if (number.ok()) options.max_inflight = static_cast<int>(*number);
  } else if (name == "memory_limit_bytes") {
    number = ReadInteger(value, 0, kMax);
    if (number.ok()) options.memory_limit_bytes = *number;
  } else if (name == "node_id") {
    number = ReadInteger(value, 0, std::numeric_limits<int>::max());
    if (number.ok()) options.node_id = static_cast<int>(*number);
  } else if (name == "num_nodes") {
    number = ReadInteger(value, 1, std::numeric_limits<int>::max());
    if (number.ok()) options.num_nodes = static_cast<int>(*number);
  } else if (name == "peer_device_count") {
    number = ReadInteger(value, 1, kMostDevices);
    if (number.ok()) options.peer_device_count = static_cast<int>(*number);
  } else if (name == "world") {
    const bool is_text = value.type == PJRT_NamedValue_kString;
    const absl::string_view world = is_text ? absl::string_view(value.string_value, value.value_size) : "";
    options.key_value_world = world == "key_value";
    if (world != "key_value" && world != "elastic")
      return absl::InvalidArgumentError("client option world must be 'elastic' or 'key_value'");
  } else if (name == "network_address" || name == "island") {
    if (value.type != PJRT_NamedValue_kString)
      return absl::InvalidArgumentError(absl::StrCat("client option ", name, " must be a string"));
    (name == "island" ? options.island : options.network_address).assign(value.string_value, value.value_size);
  } else if (name == "asynchronous") {
    if (value.type != PJRT_NamedValue_kBool) return absl::InvalidArgumentError("client option asynchronous must be a boolean");
    options.asynchronous = value.bool_value;
  } else if (!absl::StartsWith(name, "ml_framework_")) {  // frameworks identify themselves; no effect here
    return absl::InvalidArgumentError(absl::StrCat("unknown client option '", name, "'; known are ", kKnown));
  }
  return number.status();
}

}  // namespace

absl::StatusOr<Options> ReadOptions(const PJRT_NamedValue* values, size_t count) {
  Options options;
  absl::StatusOr<std::optional<int64_t>> devices = ReadEnvironment("PJRT_CPU_DEVICES", 1, kMostDevices);
  if (!devices.ok()) return devices.status();
  if (devices->has_value()) options.device_count = static_cast<int>(**devices);
  absl::StatusOr<std::optional<int64_t>> limit =
      ReadEnvironment("PJRT_CPU_MEMORY_LIMIT_BYTES", 0, std::numeric_limits<int64_t>::max());
  if (!limit.ok()) return limit.status();
  options.memory_limit_bytes = limit->value_or(0);
  for (size_t i = 0; i < count; ++i) {
    if (absl::Status status = ReadOne(values[i], options); !status.ok()) return status;
  }
  return options;
}

}  // namespace pw::pjrt_cpu
