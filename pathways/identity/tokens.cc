#include "pathways/identity/tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/secret.h"
#include "pathways/base/sha256.h"
#include "pathways/base/status_macros.h"

namespace pw::identity {
namespace {

constexpr size_t kIdDigits = 8;
constexpr size_t kSecretBytes = 32;
constexpr size_t kMostUserBytes = 64;
constexpr size_t kMostTokens = 100'000;
constexpr int kFields = 7;
constexpr absl::string_view kPrefix = "pw-";
constexpr absl::string_view kNever = "-";

bool IsHex(absl::string_view text) { return text.find_first_not_of("0123456789abcdef") == absl::string_view::npos; }

struct Parts {
  absl::string_view id, secret_hex;
};

// Splits "pw-ID-SECRET"; an empty id if it is not of this form.
Parts Split(absl::string_view token) {
  absl::string_view rest = token;
  if (!absl::ConsumePrefix(&rest, kPrefix) || rest.size() != kIdDigits + 1 + 2 * kSecretBytes || rest[kIdDigits] != '-')
    return {};
  const Parts parts{rest.substr(0, kIdDigits), rest.substr(kIdDigits + 1)};
  return IsHex(parts.id) && IsHex(parts.secret_hex) ? parts : Parts{};
}

absl::Status Unknown() {
  return absl::UnauthenticatedError(
      "the token is not one of this cluster, or was revoked: an operator makes another by 'pathways token create', and 'pathways "
      "login' stores it");
}

std::string TimeText(absl::Time time) {
  return time == absl::InfiniteFuture() ? std::string(kNever) : absl::StrCat(absl::ToUnixSeconds(time));
}

absl::StatusOr<absl::Time> ParseTime(absl::string_view text) {
  if (text == kNever) return absl::InfiniteFuture();
  int64_t seconds = 0;
  if (!absl::SimpleAtoi(text, &seconds)) return absl::InvalidArgumentError("a time is not a number of seconds");
  return absl::FromUnixSeconds(seconds);
}

}  // namespace

absl::Status CheckUserName(absl::string_view user) {
  const bool sound = !user.empty() && user.size() <= kMostUserBytes && std::all_of(user.begin(), user.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("._@-", c);
  });
  if (sound) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(user.substr(0, kMostUserBytes)),
                                                 "' is not a user's name: it has 1 to 64 letters, digits, and any of . _ @ -"));
}

std::string RoleName(Role role) {
  switch (role) {
    case Role::kUser:
      return "user";
    case Role::kOperator:
      return "operator";
    case Role::kWorker:
      return "worker";
  }
  return "?";
}

absl::StatusOr<Role> ParseRole(absl::string_view name) {
  for (Role role : {Role::kUser, Role::kOperator, Role::kWorker}) {
    if (name == RoleName(role)) return role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a role is user, operator or worker, not '", absl::CHexEscape(name.substr(0, kMostUserBytes)), "'"));
}

std::string TokenId(absl::string_view token) {
  const Parts parts = Split(token);
  return parts.id.empty() ? "?" : std::string(parts.id);
}

absl::StatusOr<std::string> TokenTable::Create(const TokenRequest& request, absl::Time now, absl::string_view secret) {
  PW_RETURN_IF_ERROR(CheckUserName(request.user));
  if (secret.size() != kSecretBytes) return absl::InternalError("a token's secret has 32 bytes");
  if (request.expires <= now) return absl::InvalidArgumentError("a token must end in the future");
  if (request.uses.has_value() && (request.role != Role::kWorker || *request.uses < 1))
    return absl::InvalidArgumentError("only tokens of workers have a number of uses, which is at least 1");
  std::erase_if(entries_, [now](const auto& entry) { return entry.second.info.of.expires <= now; });
  if (entries_.size() >= kMostTokens)
    return absl::ResourceExhaustedError("there are too many tokens: 'pathways token revoke' those that nobody needs");
  // The id is a hash of the secret's hash, so it reveals nothing about the secret. Two tokens have equal ids with a chance of one
  // in four billion.
  const std::string hash = Sha256({secret.data(), secret.size()});
  const std::string id = absl::BytesToHexString(Sha256(hash)).substr(0, kIdDigits);
  if (entries_.contains(id)) return absl::UnavailableError("this token's number is taken: try again");
  entries_[id] = {{id, request, now}, hash};
  return absl::StrCat(kPrefix, id, "-", absl::BytesToHexString(secret));
}

absl::StatusOr<const TokenTable::Entry*> TokenTable::Find(absl::string_view token, absl::Time now) const {
  const Parts parts = Split(token);
  auto it = entries_.find(std::string(parts.id));
  if (it == entries_.end() || !SameSecret(Sha256(absl::HexStringToBytes(parts.secret_hex)), it->second.hash)) return Unknown();
  const TokenInfo& info = it->second.info;
  if (info.of.expires <= now)
    return absl::UnauthenticatedError(absl::StrCat("the token ", info.id, " of '", info.of.user, "' ended at ",
                                                   absl::FormatTime(info.of.expires),
                                                   ": an operator makes another by 'pathways token create'"));
  if (info.of.uses.has_value() && *info.of.uses < 1)
    return absl::UnauthenticatedError(absl::StrCat("all uses of the join token ", info.id,
                                                   " are spent: an operator makes another by 'pathways token "
                                                   "create --role worker'"));
  return &it->second;
}

absl::StatusOr<TokenInfo> TokenTable::Check(absl::string_view token, absl::Time now) const {
  PW_ASSIGN_OR_RETURN(const Entry* entry, Find(token, now));
  return entry->info;
}

absl::StatusOr<TokenInfo> TokenTable::Use(absl::string_view token, absl::Time now) {
  PW_ASSIGN_OR_RETURN(const Entry* found, Find(token, now));
  TokenInfo& info = entries_.at(found->info.id).info;
  if (info.of.uses.has_value()) --*info.of.uses;
  return info;
}

absl::Status TokenTable::Revoke(const std::string& id) {
  if (entries_.erase(id) != 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no token '", absl::CHexEscape(id), "': 'pathways token list' shows them"));
}

std::vector<TokenInfo> TokenTable::List(absl::Time now) const {
  std::vector<TokenInfo> list;
  for (const auto& [id, entry] : entries_) {
    if (entry.info.of.expires > now) list.push_back(entry.info);
  }
  std::stable_sort(list.begin(), list.end(), [](const TokenInfo& a, const TokenInfo& b) { return a.created < b.created; });
  return list;
}

std::string TokenTable::ToText() const {
  std::string text;
  for (const auto& [id, entry] : entries_) {
    const TokenRequest& of = entry.info.of;
    absl::StrAppend(
        &text,
        absl::StrJoin({id, absl::BytesToHexString(entry.hash), RoleName(of.role), of.user, TimeText(entry.info.created),
                       TimeText(of.expires), of.uses.has_value() ? absl::StrCat(*of.uses) : std::string(kNever)},
                      " "),
        "\n");
  }
  return text;
}

absl::StatusOr<TokenTable> TokenTable::Parse(absl::string_view text) {
  TokenTable table;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    int64_t uses = 0;
    if (fields.size() != kFields || fields[0].size() != kIdDigits || !IsHex(fields[0]) || fields[1].size() != 64 ||
        !IsHex(fields[1]) || (fields[6] != kNever && !absl::SimpleAtoi(fields[6], &uses)))
      return absl::InvalidArgumentError("a line of the tokens' file is damaged: remove it, and revoke nothing else");
    Entry entry;
    entry.info.id = fields[0];
    entry.hash = absl::HexStringToBytes(fields[1]);
    PW_ASSIGN_OR_RETURN(entry.info.of.role, ParseRole(fields[2]));
    PW_RETURN_IF_ERROR(CheckUserName(fields[3]));
    entry.info.of.user = fields[3];
    PW_ASSIGN_OR_RETURN(entry.info.created, ParseTime(fields[4]));
    PW_ASSIGN_OR_RETURN(entry.info.of.expires, ParseTime(fields[5]));
    if (fields[6] != kNever) entry.info.of.uses = uses;
    table.entries_[fields[0]] = std::move(entry);
  }
  return table;
}

}  // namespace pw::identity
