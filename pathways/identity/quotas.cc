#include "pathways/identity/quotas.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pathways/base/status_macros.h"
#include "pathways/identity/tokens.h"

namespace pw::identity {
namespace {

constexpr size_t kMostUsers = 100'000;
constexpr char kAll[] = "all";

absl::Status CheckUser(const std::string& user) {
  return user == QuotaTable::kEverybody ? absl::OkStatus() : CheckUserName(user);
}

absl::Status Check(const Quota& quota) {
  if (quota.sessions.has_value() && *quota.sessions < 0) return absl::InvalidArgumentError("a number of sessions is 0 or more");
  if (quota.device_seconds.has_value() && !(*quota.device_seconds >= 0 && std::isfinite(*quota.device_seconds)))
    return absl::InvalidArgumentError("a number of device seconds is 0 or more");
  if (quota.weight.has_value() && !(*quota.weight > 0 && std::isfinite(*quota.weight)))
    return absl::InvalidArgumentError("a weight is more than 0");
  return absl::OkStatus();
}

// Takes over the limits that `from` has.
void Update(const Quota& from, Quota* quota) {
  if (from.sessions) quota->sessions = from.sessions;
  if (from.device_seconds) quota->device_seconds = from.device_seconds;
  if (from.weight) quota->weight = from.weight;
  if (from.priority) quota->priority = from.priority;
}

absl::Status Remove(const std::string& name, Quota* quota) {
  if (name == kAll) {
    *quota = {};
  } else if (name == "sessions") {
    quota->sessions.reset();
  } else if (name == "device_seconds") {
    quota->device_seconds.reset();
  } else if (name == "weight") {
    quota->weight.reset();
  } else if (name == "priority") {
    quota->priority.reset();
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is not a limit: sessions, device_seconds, weight, priority or all"));
  }
  return absl::OkStatus();
}

std::string Line(const std::string& user, const Quota& quota) {
  std::string line = user;
  if (quota.sessions) absl::StrAppend(&line, " sessions=", *quota.sessions);
  if (quota.device_seconds) absl::StrAppend(&line, " device_seconds=", *quota.device_seconds);
  if (quota.weight) absl::StrAppend(&line, " weight=", *quota.weight);
  if (quota.priority) absl::StrAppend(&line, " priority=", *quota.priority);
  return line + "\n";
}

template <class T, class F>
bool Read(absl::string_view text, F parse, std::optional<T>* limit) {
  T value;
  if (!parse(text, &value)) return false;
  *limit = value;
  return true;
}

bool ReadLimit(absl::string_view field, Quota* quota) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(field, absl::MaxSplits('=', 1));
  const auto& [name, value] = parts;
  if (name == "sessions") return Read(value, absl::SimpleAtoi<int64_t>, &quota->sessions);
  if (name == "device_seconds") return Read(value, absl::SimpleAtod, &quota->device_seconds);
  if (name == "weight") return Read(value, absl::SimpleAtod, &quota->weight);
  return name == "priority" && Read(value, absl::SimpleAtoi<int32_t>, &quota->priority);
}

}  // namespace

absl::Status QuotaTable::Change(const std::string& user, const Quota& limits, const std::vector<std::string>& removed) {
  PW_RETURN_IF_ERROR(CheckUser(user));
  PW_RETURN_IF_ERROR(Check(limits));
  const auto known = limits_.find(user);
  Quota quota = known == limits_.end() ? Quota() : known->second;
  for (const std::string& name : removed) PW_RETURN_IF_ERROR(Remove(name, &quota));
  Update(limits, &quota);
  if (quota.empty()) {
    limits_.erase(user);
  } else if (known == limits_.end() && limits_.size() >= kMostUsers) {
    return absl::ResourceExhaustedError(absl::StrCat(kMostUsers, " users have limits already"));
  } else {
    limits_[user] = quota;
  }
  return absl::OkStatus();
}

Quota QuotaTable::Of(const std::string& user) const {
  Quota quota;
  for (const std::string& one : {std::string(kEverybody), user}) {
    if (auto found = limits_.find(one); found != limits_.end()) Update(found->second, &quota);
  }
  return quota;
}

std::string QuotaTable::ToText() const {
  std::string text;
  for (const auto& [user, quota] : limits_) text += Line(user, quota);
  return text;
}

absl::StatusOr<QuotaTable> QuotaTable::Parse(absl::string_view text) {
  QuotaTable table;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    Quota quota;
    bool sound = fields.size() > 1;
    for (size_t i = 1; sound && i < fields.size(); ++i) sound = ReadLimit(fields[i], &quota);
    const std::string user(fields[0]);
    if (!sound || table.limits_.contains(user) || !table.Change(user, quota, {}).ok())
      return absl::DataLossError(absl::StrCat("a line of the quotas is damaged: '", line.substr(0, 200), "'"));
  }
  return table;
}

}  // namespace pw::identity
