#include "pathways/session/quota_questions.h"

#include <optional>
#include <type_traits>
#include <vector>

#include "pathways/base/json_writer.h"
#include "pathways/base/status_macros.h"

namespace pw::session {
namespace {

using ::pathways::v1::QuotaQuestion;

absl::Status Change(identity::ClusterIdentity& identity, Cluster& cluster, const QuotaQuestion::Change& change) {
  identity::Quota limits;
  if (change.has_sessions()) limits.sessions = change.sessions();
  if (change.has_device_seconds()) limits.device_seconds = change.device_seconds();
  if (change.has_weight()) limits.weight = change.weight();
  if (change.has_priority()) limits.priority = change.priority();
  if (change.has_devices()) limits.devices = change.devices();
  if (change.has_device_memory()) limits.device_memory = change.device_memory();
  if (change.has_host_memory()) limits.host_memory = change.host_memory();
  if (change.has_host_processes()) limits.host_processes = change.host_processes();
  PW_RETURN_IF_ERROR(identity.ChangeQuota(change.user(), limits, {change.remove().begin(), change.remove().end()}));
  cluster.OnQuotasChanged();
  return absl::OkStatus();
}

void Write(const std::string& user, const identity::Quota& quota, JsonWriter& json) {
  json.BeginObject().Key("user").String(user);
  identity::ForEachLimit(
      [&json]<class Number>(const char* name, const std::optional<Number>& limit) {
        if (!limit.has_value()) return;
        json.Key(name);
        if constexpr (std::is_floating_point_v<Number>)
          json.Number(*limit);
        else
          json.Int(*limit);
      },
      quota);
  json.EndObject();
}

std::string List(const identity::ClusterIdentity& identity, Cluster& cluster, const identity::Caller& caller) {
  JsonWriter json;
  json.BeginObject().Key("quotas").BeginArray();
  if (caller.is_operator()) {
    for (const auto& [user, quota] : identity.quotas().all()) Write(user, quota, json);
  } else if (const identity::Quota own = identity.quotas().Of(caller.user); !own.empty()) {
    Write(caller.user, own, json);
  }
  json.EndArray().Key("users").BeginArray();
  for (const UserUse& use : cluster.Use()) {
    if (!caller.is_operator() && use.user != caller.user) continue;
    json.BeginObject().Key("user").String(use.user).Key("sessions").Int(use.sessions);
    json.Key("device_seconds").Number(use.device_seconds).Key("devices").Int(use.devices);
    if (use.device_bytes.has_value()) json.Key("device_memory").Int(*use.device_bytes);
    if (use.host_bytes.has_value()) json.Key("host_memory").Int(*use.host_bytes);
    if (use.host_processes.has_value()) json.Key("host_processes").Int(*use.host_processes);
    json.EndObject();
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace

absl::StatusOr<std::string> AnswerQuotas(identity::ClusterIdentity& identity, Cluster& cluster, const identity::Caller& caller,
                                         const QuotaQuestion& question) {
  if (question.kind_case() == QuotaQuestion::KIND_NOT_SET)
    return absl::UnimplementedError("this controller does not know this question about quotas: the client is newer");
  if (question.has_change()) PW_RETURN_IF_ERROR(Change(identity, cluster, question.change()));
  return List(identity, cluster, caller);
}

}  // namespace pw::session
