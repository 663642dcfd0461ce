#include "pathways/identity/issuer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pathways/base/status_macros.h"
#include "pathways/identity/tokens.h"
#include "pathways/json/json.h"

namespace pw::identity {
namespace {

constexpr absl::Duration kClockSkew = absl::Minutes(1);

absl::Status Refused(absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat("the identity provider's token ", why));
}

absl::StatusOr<JsonObject> Part(absl::string_view base64) {
  std::string text;
  if (!absl::WebSafeBase64Unescape(base64, &text)) return Refused("is damaged");
  absl::StatusOr<JsonObject> object = ParseJson(text);
  return object.ok() ? std::move(object) : Refused("is damaged");
}

// Returns whether a field is this text, or a list that contains it.
bool Has(const JsonObject& claims, const std::string& name, const std::string& wanted) {
  const JsonValue* value = FindField(claims, name);
  if (value == nullptr) return false;
  if (value->kind_case() == JsonValue::kStringValue) return value->string_value() == wanted;
  for (const JsonValue& item : value->list_value().values()) {
    if (item.kind_case() == JsonValue::kStringValue && item.string_value() == wanted) return true;
  }
  return false;
}

// Returns a field's time, or nullopt if it is absent or no number.
std::optional<absl::Time> TimeIn(const JsonObject& claims, const std::string& name) {
  const JsonValue* value = FindField(claims, name);
  if (value == nullptr || value->kind_case() != JsonValue::kNumberValue || !std::isfinite(value->number_value()))
    return std::nullopt;
  return absl::UnixEpoch() + absl::Seconds(value->number_value());
}

std::pair<std::string, std::string> ClaimAndValue(const std::string& rule) {
  return absl::StrSplit(rule, absl::MaxSplits('=', 1));
}

}  // namespace

absl::StatusOr<Issuer> Issuer::Create(IssuerOptions options) {
  if (!absl::StartsWith(options.url, "https://"))
    return absl::InvalidArgumentError(
        "an identity provider is named by its address, https://HOST/..., exactly as its tokens have it");
  if (options.audience.empty())
    return absl::InvalidArgumentError(
        "an identity provider needs an audience: without it, tokens that were made for other services would open this cluster");
  if (options.user_claim.empty()) return absl::InvalidArgumentError("the field with the user's name must be named");
  const auto [claim, value] = ClaimAndValue(options.operators);
  if (!options.operators.empty() && (claim.empty() || value.empty()))
    return absl::InvalidArgumentError("the provider's operators are named as CLAIM=VALUE, such as groups=ml-operators");
  return Issuer(std::move(options));
}

bool Issuer::HasForm(absl::string_view token) {
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  return parts.size() == 3 && absl::StartsWith(token, "ey");  // '{"' in base64
}

absl::StatusOr<Caller> Issuer::Admit(absl::string_view token, absl::Time now) const {
  if (token.size() > kMostIssuedBytes) return Refused(absl::StrCat("has more than ", kMostIssuedBytes, " bytes"));
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused("is damaged");
  if (!keys_.has_value())
    return Refused(
        absl::StrCat("cannot be checked yet: this cluster has not read the keys of ", options_.url, "; its log says why"));
  PW_ASSIGN_OR_RETURN(const JsonObject header, Part(parts[0]));
  std::string signature;
  if (!absl::WebSafeBase64Unescape(parts[2], &signature)) return Refused("is damaged");
  if (FindField(header, "crit") != nullptr) return Refused("needs an extension that this cluster does not have");
  const net::VerifyingKey* key = keys_->Find(StringField(header, "kid").value_or(""));
  if (key == nullptr) {
    if (ask_for_keys_) ask_for_keys_();
    return Refused(absl::StrCat("is signed by a key that ", options_.url,
                                " does not publish, or has published only just now: then it counts in a few seconds"));
  }
  if (StringField(header, "alg").value_or("") != key->algorithm()) return Refused("names another algorithm than its key has");
  if (!key->Verifies(token.substr(0, token.rfind('.')), signature)) return Refused("has a wrong signature");
  return CallerOf(parts[1], now);
}

absl::StatusOr<Caller> Issuer::CallerOf(absl::string_view base64, absl::Time now) const {
  PW_ASSIGN_OR_RETURN(const JsonObject claims, Part(base64));
  if (StringField(claims, "iss").value_or("") != options_.url) return Refused("is of another issuer");
  if (!Has(claims, "aud", options_.audience)) return Refused(absl::StrCat("is not for '", options_.audience, "'"));
  const std::optional<absl::Time> end = TimeIn(claims, "exp"), begin = TimeIn(claims, "nbf");
  if (!end.has_value()) return Refused("has no end");
  if (*end + kClockSkew <= now)
    return Refused(absl::StrCat("ended at ", absl::FormatTime(*end), ": get a new one from ", options_.url));
  if (begin.has_value() && *begin - kClockSkew > now) return Refused(absl::StrCat("begins only at ", absl::FormatTime(*begin)));
  Caller caller;
  caller.user = StringField(claims, options_.user_claim).value_or("");
  if (const absl::Status named = CheckUserName(caller.user); !named.ok())
    return Refused(absl::StrCat("has no user's name in '", options_.user_claim, "': ", named.message()));
  if (std::find(std::begin(kOwnUsers), std::end(kOwnUsers), caller.user) != std::end(kOwnUsers))
    return Refused(absl::StrCat("names the user '", caller.user, "', which is the cluster's own"));
  const auto [claim, value] = ClaimAndValue(options_.operators);
  if (!claim.empty() && Has(claims, claim, value)) caller.role = Role::kOperator;
  return caller;
}

}  // namespace pw::identity
