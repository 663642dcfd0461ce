#include "pathways/base/unreachable_host.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pw {
namespace {
constexpr char kPayload[] = "pathways.dev/unreachable-host";
}  // namespace

absl::Status WithUnreachableHost(absl::Status status, HostId host) {
  if (!status.ok()) status.SetPayload(kPayload, absl::Cord(absl::StrCat(host.v)));
  return status;
}

absl::Status UnreachableHostError(HostId host, absl::string_view message) {
  return WithUnreachableHost(absl::UnavailableError(message), host);
}

std::optional<HostId> UnreachableHost(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  uint32_t host = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &host)) return std::nullopt;
  return HostId(host);
}

absl::Status WithPayloadsOf(const absl::Status& from, absl::Status to) {
  from.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) { to.SetPayload(type, payload); });
  return to;
}

}  // namespace pw
