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
  for (const auto& [count, what] : {std::pair(quota.sessions, "sessions"), {quota.devices, "devices"},
                                    {quota.device_memory, "bytes"}, {quota.host_memory, "bytes"}, {quota.host_processes, "host processes"}}) {
    if (count.has_value() && *count < 0) return absl::InvalidArgumentError(absl::StrCat("a number of ", what, " is 0 or more"));
  }
  if (quota.device_seconds.has_value() && !(*quota.device_seconds >= 0 && std::isfinite(*quota.device_seconds)))
    return absl::InvalidArgumentError("a number of device seconds is 0 or more");
  if (quota.weight.has_value() && !(*quota.weight > 0 && std::isfinite(*quota.weight)))
    return absl::InvalidArgumentError("a weight is more than 0");
  return absl::OkStatus();
}

// Takes over the limits that `from` has.
void Update(const Quota& from, Quota* quota) {
  ForEachLimit(
      [](const char*, const auto& given, auto& limit) {
        if (given.has_value()) limit = given;
      },
      from, *quota);
}

absl::Status Remove(const std::string& name, Quota* quota) {
  bool known = name == kAll;
  std::vector<std::string> names;
  ForEachLimit(
      [&](const char* one, auto& limit) {
        names.push_back(one);
        if (name != kAll && name != one) return;
        limit.reset();
        known = true;
      },
      *quota);
  if (known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a limit: ", absl::StrJoin(names, ", "), " or ", kAll));
}

std::string Line(const std::string& user, const Quota& quota) {
  std::string line = user;
  ForEachLimit(
      [&line](const char* name, const auto& limit) {
        if (limit.has_value()) absl::StrAppend(&line, " ", name, "=", *limit);
      },
      quota);
  return line + "\n";
}

bool ReadNumber(absl::string_view text, double* value) { return absl::SimpleAtod(text, value); }
template <class Integer>
bool ReadNumber(absl::string_view text, Integer* value) {
  return absl::SimpleAtoi(text, value);
}

bool ReadLimit(absl::string_view field, Quota* quota) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(field, absl::MaxSplits('=', 1));
  bool read = false;
  ForEachLimit(
      [&](const char* name, auto& limit) {
        if (parts.first != name) return;
        limit.emplace();
        read = ReadNumber(parts.second, &*limit);
      },
      *quota);
  return read;
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
