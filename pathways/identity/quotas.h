// QuotaTable: limits that an operator has set for the users of a cluster. Pure.
//
// A user's limit is the one set for this user, else the one set for "*", which holds for all users without a limit of their own.
// Operators have no limits: they set them.
//
// As text, the table has a line for each user: "ada sessions=2 device_seconds=3600 weight=1.5 priority=0".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pw::identity {

// A limit that is absent does not limit.
struct Quota {
  std::optional<int64_t> sessions = std::nullopt;        // open at a time; one more waits in a queue
  std::optional<double> device_seconds = std::nullopt;   // a day (UTC), summed over devices; then computations are refused
  std::optional<double> weight = std::nullopt;           // the largest weight of a session
  std::optional<int32_t> priority = std::nullopt;        // the largest priority of a session
  std::optional<int64_t> devices = std::nullopt;         // in use at a time, by slices and without them
  std::optional<int64_t> device_memory = std::nullopt;   // bytes of arrays on each device
  std::optional<int64_t> host_memory = std::nullopt;     // bytes of arrays on their way from clients, or to them, on each host
  std::optional<int64_t> host_processes = std::nullopt;  // Python processes on each host

  bool empty() const { return *this == Quota(); }
  bool operator==(const Quota&) const = default;
};

// Calls `visit` with the name of each limit, and with that limit in each of `quotas`.
template <class Visit, class... Quotas>
void ForEachLimit(Visit visit, Quotas&... quotas) {
  visit("sessions", quotas.sessions...);
  visit("device_seconds", quotas.device_seconds...);
  visit("weight", quotas.weight...);
  visit("priority", quotas.priority...);
  visit("devices", quotas.devices...);
  visit("device_memory", quotas.device_memory...);
  visit("host_memory", quotas.host_memory...);
  visit("host_processes", quotas.host_processes...);
}

class QuotaTable {
 public:
  static constexpr char kEverybody[] = "*";

  // Sets the limits that `limits` has, after removing those that `removed` names ("sessions", ...; "all"). INVALID_ARGUMENT says
  // what is wrong; then nothing has changed.
  absl::Status Change(const std::string& user, const Quota& limits, const std::vector<std::string>& removed);
  // Returns the limits in force for this user.
  Quota Of(const std::string& user) const;
  // Returns the limits as they were set, by user or "*".
  const std::map<std::string, Quota>& all() const { return limits_; }

  std::string ToText() const;
  static absl::StatusOr<QuotaTable> Parse(absl::string_view text);

 private:
  std::map<std::string, Quota> limits_;  // without empty ones
};

}  // namespace pw::identity
